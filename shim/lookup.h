/* Symbols of the objects behind ours, as dlsym(RTLD_NEXT) finds them, at a fifth of its cost and
 * without its locks. */
#ifndef HEDDLE_LOOKUP_H
#define HEDDLE_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* lookup_begin: false if some object is not of the kind that can be searched so. */
bool lookup_begin(void);

/* lookup_next: the function of that name, in its default version, of the first object behind ours
 * that has one; or NULL. */
void *lookup_next(const char *name);

/* lookup_libc: the C library's own, whoever else has one of that name; NULL without lookup_begin.
 */
void *lookup_libc(const char *name);

/* lookup_named: as lookup_next, of a name that is known with its size and hash: of two hundred none
 * is gone through letter by letter. Writes nothing. */
struct lookup_name {
	const char *text;
	size_t size; /* with the zero at the end */
	uint32_t hash;
};
void *lookup_named(const struct lookup_name *name);

/* lookup_ahead: the file of an object behind ours, but before the C library, that has one; or
 * NULL. */
const char *lookup_ahead(const struct lookup_name *name);

/* LOOKUP_HASH: of a literal of at most LOOKUP_LONGEST letters, a constant: from 5381 on, for each
 * letter 33 times what there is and the letter. */
enum { LOOKUP_LONGEST = 32 };
#define LOOKUP_HASH(s) LOOKUP_16(LOOKUP_16(5381u, s, 0), s, 16)
#define LOOKUP_16(h, s, i)                                                                         \
	LOOKUP_4(LOOKUP_4(LOOKUP_4(LOOKUP_4(h, s, i), s, i + 4), s, i + 8), s, i + 12)
#define LOOKUP_4(h, s, i)                                                                          \
	LOOKUP_1(LOOKUP_1(LOOKUP_1(LOOKUP_1(h, s, i), s, i + 1), s, i + 2), s, i + 3)
#define LOOKUP_1(h, s, i)                                                                          \
	((h) * (sizeof(s) - 1 > (i) ? 33u : 1u) +                                                  \
	 (sizeof(s) - 1 > (i) ? (unsigned char)(s)[sizeof(s) - 1 > (i) ? (i) : 0] : 0u))

/* lookup_before: heddle's own function of that name, if next is some version of the one that
 * lookup_next finds; or NULL. Writes nothing, so anybody may ask at any time. */
void *lookup_before(const char *name, const void *next);

/* lookup_behind: as lookup_next, without lookup_begin. Slower. */
void *lookup_behind(const char *name);

/* lookup_in: the function of that name that this object has, in its default version; or NULL. */
struct link_map;
void *lookup_in(const struct link_map *object, const char *name);

/* lookup_reaches: does who asks for a version of that name in the objects behind `from`, or NULL:
 * in all, come by heddle before another has it? Slower. */
bool lookup_reaches(const struct link_map *from, const char *name);

/* lookup_replace: whoever finds in the C library what heddle covers finds heddle's from here on, in
 * whatever version; but not what finds and opens. The caller sees to it that nobody else is here.
 * False: nothing is changed: the tables are not of that kind, or not to be written. */
bool lookup_replace(void);

/* lookup_hidden: the file of the object in which lookup_next just found one; NULL if that is the C
 * library. */
const char *lookup_hidden(void);

/* lookup_size: of the function of that name at that place; 0 if nobody knows. Slow of one that
 * lookup_next did not find. */
size_t lookup_size(const char *name, const void *fn);

/* lookup_wanted: does some object but libc itself ask for that name? Slower. */
bool lookup_wanted(const char *name);

#endif
