#ifndef HEDDLE_ONCE_H
#define HEDDLE_ONCE_H

/* once_forked: in the child of a fork. */
void once_forked(void);

#endif
