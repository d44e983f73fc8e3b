/* What contexts carry beside what all do, once it is used: bits of arch_extras. For assembly, too.
 */
#ifndef HEDDLE_ARCH_EXTRAS_H
#define HEDDLE_ARCH_EXTRAS_H

#define EXTRA_PKRU 1
#define EXTRA_TILES 2

/* The tiles' configuration and the tiles, of XSAVE; as xsavec lays them out, behind a legacy area
 * that it leaves alone and a header; and what it takes to begin at a multiple of 64. */
#define TILES_STATE 0x60000
#define TILES_SIZE (512 + 64 + 64 + 8192 + 64)

#endif
