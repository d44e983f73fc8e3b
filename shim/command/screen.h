/* The terminal, taken over for a while and given back as it was, whatever ends us. */
#ifndef HEDDLE_COMMAND_SCREEN_H
#define HEDDLE_COMMAND_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

/* screen_open: false if standard input or output is no terminal. screen_close: gives it back. */
bool screen_open(void);
void screen_close(void);

/* screen_size: its columns and rows now. screen_show: a frame of lines, each no longer than a row;
 * what was there goes. screen_key: a key within so many ms, 0 if there is none or the size changed;
 * -1: it is to end. */
void screen_size(int *columns, int *rows);
void screen_show(const char *frame, size_t n);
int screen_key(int ms);

#endif
