/* One case in one pass: the confusion of two label arrays, and the pieces and the HD95 of every label.
 *
 * The definitions stand in boundary.py, volume.py and cases.py, whose NumPy functions give the same values and are used
 * where this file is not compiled. What makes it fast:
 *   - blocks that are zero in both arrays are skipped; what is left is read in runs of equal pairs of values;
 *   - pieces are counted from the same runs, of which only those of two slices are kept;
 *   - up to four labels share a byte a voxel (bit 2l: prediction, bit 2l + 1: reference), so that the boundary corners of
 *     all masks come from OR and AND of eight neighbouring bytes;
 *   - a corner on both boundaries is at distance 0 and only adds its area;
 *   - the nearest corner is sought in rows of bits, nearest row first, within a radius that doubles until 95 % of the
 *     area is reached; what lies farther is never measured;
 *   - where that search would cost more, distances come from an exact transform of one slice after the other;
 *   - the second direction first asks whether it stays within the first.
 *
 * Areas are counted by corner code, so that sums do not depend on the order of corners.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Zeros below the lowest and above the highest bit of a word that is not 0. */
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static inline int zeros_below(uint64_t word) { return __builtin_ctzll(word); }
static inline int zeros_above(uint64_t word) { return __builtin_clzll(word); }
#elif defined(_MSC_VER)
#include <intrin.h>
static inline int zeros_below(uint64_t word) { unsigned long at; _BitScanForward64(&at, word); return (int)at; }
static inline int zeros_above(uint64_t word) { unsigned long at; _BitScanReverse64(&at, word); return 63 - (int)at; }
#else
#error "the compiled kernel is written for GCC, Clang or MSVC on little-endian machines; elsewhere NumPy is used"
#endif

#define SHARE (0.95 - 1e-9)
#define LABELS_PER_BYTE 4
#define MASKS (2 * LABELS_PER_BYTE)
#define ONES 0x0101010101010101u
#define MARGIN 64 /* empty bits before and after the columns of a row of bits */
#define SAMPLE 128
#define SLACK (1 + 1e-12) /* two ways to sum the same squares may differ by a rounding */

typedef struct { int32_t low[3], high[3]; } Box; /* high is one past the last */

typedef struct { int64_t count; Box box; } Pair;

typedef struct {
    const uint8_t *voxels, *codes, *members; /* raw values; raw value -> code; code x label -> 0 or 1 */
    int64_t n_codes;
} Side;

typedef struct {
    Side ours, theirs;
    int32_t shape[3], order[3]; /* slowest axis first; order: which axis becomes slices, rows, columns of the grid */
    double step[3];             /* spacing in mm of slices, rows, columns */
    const double *sizes;        /* corner code -> area; bit 0 of the code is the column, bit 1 the row, bit 2 the slice */
    int64_t n_labels;
    int ignore, flat, may_skip; /* code left out, or -1; whether the image is 2-D; whether zeros are in no label */
} Case;

typedef struct { int32_t x, y, z; uint32_t code; } Corner;

typedef struct { Corner *items; int64_t n, room; } Corners;

typedef struct {
    int32_t nx, ny, nz;         /* corners along columns, rows, slices */
    int64_t words;              /* 64-bit words in a row of bits, an empty one at either end */
    uint64_t *bits[MASKS];      /* boundary corners of each mask */
    int64_t codes[MASKS][256];  /* how many have each code */
    Corners apart[MASKS];       /* those that are not on the other mask's boundary */
} Grid;

typedef struct { double square, area; } Reached;

static inline uint64_t load8(const uint8_t *at) { uint64_t word; memcpy(&word, at, 8); return word; }

static inline uint64_t load2(const uint8_t *at) { uint16_t word; memcpy(&word, at, 2); return word; }

/* The lowest bit of each of eight bytes, gathered in one byte in their order. */
static inline uint8_t gather(uint64_t bytes) { return (uint8_t)(((bytes & ONES) * 0x0102040810204080u) >> 56); }

static inline int64_t product(const int32_t *shape) { return (int64_t)shape[0] * shape[1] * shape[2]; }

/* ---- reading ---- */

/* The first place from i on where a or b is not zero, or end. */
static inline int64_t next_nonzero(const uint8_t *a, const uint8_t *b, int64_t i, int64_t end) {
    while (i + 8 <= end) {
        const uint64_t word = load8(a + i) | load8(b + i);
        if (word) return i + (zeros_below(word) >> 3);
        i += 8;
        while (i + 64 <= end) {
            uint64_t any = 0;
            for (int k = 0; k < 64; k += 8) any |= load8(a + i + k) | load8(b + i + k);
            if (any) break;
            i += 64;
        }
    }
    while (i < end && !(a[i] | b[i])) i++;
    return i;
}

/* How far both arrays keep the value they have at i. */
static inline int64_t run_end(const uint8_t *a, const uint8_t *b, int64_t i, int64_t end) {
    const uint8_t va = a[i], vb = b[i];
    for (; i + 8 <= end; i += 8) {
        const uint64_t changed = (load8(a + i) ^ va * ONES) | (load8(b + i) ^ vb * ONES);
        if (changed) return i + (zeros_below(changed) >> 3);
    }
    while (i < end && a[i] == va && b[i] == vb) i++;
    return i;
}

static void widen(Box *box, const int32_t low[3], const int32_t high[3]) {
    for (int axis = 0; axis < 3; axis++) {
        if (low[axis] < box->low[axis]) box->low[axis] = low[axis];
        if (high[axis] > box->high[axis]) box->high[axis] = high[axis];
    }
}

static const Box NOWHERE = {{INT32_MAX, INT32_MAX, INT32_MAX}, {0, 0, 0}};

/* ---- pieces ---- */

/* Voxels start..end - 1 of a row. `later` leads to another run of the same piece, or to the run itself from the last. */
typedef struct { int64_t row, later; int32_t start, end; } Run;

/* The pieces of a mask whose runs come in order. The last run may still grow; it is joined when the next one begins.
 * Rows are numbered with one between slices that is always empty. */
typedef struct {
    Run *runs;
    int64_t n, room, pieces;
    int64_t at[4]; /* in each row that touches the one under way: the first run that may touch a later run */
} Pieces;

/* Lets a run and all that it leads to lead to the last run; returns whether that joins two pieces. */
static inline int lead_to(Run *runs, int64_t i, int64_t last) {
    while (i != last) {
        const int64_t next = runs[i].later;
        runs[i].later = last;
        if (next == i) return 1;
        i = next;
    }
    return 0;
}

/* Joins the last run with those before it that it touches: in the row before, and in three rows of the slice before. */
static void join_last(Pieces *p, int64_t slice) {
    const int64_t back[4] = {slice + 1, slice, slice - 1, 1}, last = p->n - 1;
    if (last < 0) return;
    Run *runs = p->runs;
    for (int k = 0; k < 4; k++) {
        const int64_t row = runs[last].row - back[k];
        int64_t i = p->at[k]; /* the last run itself lies beyond that row and ends the search */
        while (runs[i].row < row || (runs[i].row == row && runs[i].end < runs[last].start)) i++;
        p->at[k] = i;
        for (; runs[i].row == row && runs[i].start <= runs[last].end; i++) p->pieces -= lead_to(runs, i, last);
    }
}

/* Makes room for a run, at first by forgetting those that no later one can touch: no chain leads back to them. */
static int make_room_for_run(Pieces *p) {
    const int64_t past = p->at[0];
    if (p->n < p->room) return 0;
    if (past > p->room / 2) {
        p->n -= past;
        memmove(p->runs, p->runs + past, (size_t)p->n * sizeof(Run));
        for (int64_t i = 0; i < p->n; i++) p->runs[i].later -= past;
        for (int k = 0; k < 4; k++) p->at[k] -= past;
        return 0;
    }
    const int64_t room = 2 * p->room + 256;
    Run *runs = realloc(p->runs, (size_t)room * sizeof(Run));
    if (!runs) return -1;
    p->runs = runs;
    p->room = room;
    return 0;
}

static int add_run(Pieces *p, int64_t slice, Run run) {
    if (p->n && p->runs[p->n - 1].row == run.row && p->runs[p->n - 1].end == run.start) {
        p->runs[p->n - 1].end = run.end;
        return 0;
    }
    join_last(p, slice);
    if (make_room_for_run(p)) return -1;
    run.later = p->n;
    p->runs[p->n++] = run;
    p->pieces++;
    return 0;
}

/* Adds a run to every label that a code belongs to; `pieces` is that of the first label, the next ones lie two on. */
static int add_to_members(Pieces *pieces, const Side *side, int code, int64_t n_labels, int64_t slice, Run run) {
    const uint8_t *members = side->members + code * n_labels, *end = members + n_labels;
    for (const uint8_t *m = members; m < end && (m = memchr(m, 1, (size_t)(end - m))); m++) {
        if (add_run(pieces + 2 * (m - members), slice, run)) return -1;
    }
    return 0;
}

/* ---- pairs ---- */

/* Counts every pair of codes and finds the box it lies in, and the pieces of all masks unless `pieces` is NULL; returns
 * the number of ignored voxels, or -1 without memory. */
static int64_t read_pairs(const Case *c, Pair *pairs, Pieces *pieces) {
    const uint8_t *p = c->ours.voxels, *r = c->theirs.voxels;
    const int64_t n = product(c->shape), nx = c->shape[2], ny = c->shape[1];
    int64_t ignored = 0, row = 0, row_end = nx;
    int32_t z = 0, y = 0;
    for (int64_t i = 0; i < n;) {
        if (c->may_skip && (i = next_nonzero(p, r, i, n)) >= n) break;
        if (i >= row_end) {
            row = i < row_end + nx ? row + 1 : i / nx;
            row_end = (row + 1) * nx;
            z = (int32_t)(row / ny), y = (int32_t)(row % ny);
        }
        const int64_t start = i;
        const int code = c->ours.codes[p[i]], truth = c->theirs.codes[r[i]];
        i = run_end(p, r, i, row_end);
        if (truth == c->ignore) {
            ignored += i - start;
        } else if (code | truth) {
            Pair *pair = pairs + code * c->theirs.n_codes + truth;
            const int32_t x = (int32_t)(start - (row_end - nx)), end = x + (int32_t)(i - start);
            const Run run = {row + z, 0, x, end};
            pair->count += i - start;
            widen(&pair->box, (int32_t[]){z, y, x}, (int32_t[]){z + 1, y + 1, end});
            if (!pieces) continue;
            if (add_to_members(pieces, &c->ours, code, c->n_labels, ny + 1, run)) return -1;
            if (add_to_members(pieces + 1, &c->theirs, truth, c->n_labels, ny + 1, run)) return -1;
        }
    }
    for (int64_t i = 0; pieces && i < 2 * c->n_labels; i++) join_last(&pieces[i], ny + 1);
    return ignored;
}

/* ---- boundaries ---- */

typedef struct { uint8_t ours[256], theirs[256], keep[256]; } Bits; /* raw value -> bits of the masks of a batch */

static Bits bits_of(const Case *c, const int64_t *labels, int n_labels) {
    Bits bits = {{0}, {0}, {0}};
    for (int value = 0; value < 256; value++) {
        const int code = c->ours.codes[value], truth = c->theirs.codes[value];
        bits.keep[value] = truth == c->ignore ? 0 : 0xff;
        for (int k = 0; k < n_labels; k++) {
            bits.ours[value] |= (uint8_t)(c->ours.members[code * c->n_labels + labels[k]] << (2 * k));
            bits.theirs[value] |= (uint8_t)(c->theirs.members[truth * c->n_labels + labels[k]] << (2 * k + 1));
        }
        bits.theirs[value] &= bits.keep[value];
    }
    return bits;
}

/* Writes the mask bits of the voxels in a box; the first of them goes to `out`, neighbours lie `stride` apart. */
static void pack(const Case *c, const Box *box, const Bits *bits, uint8_t *out, const int64_t stride[3]) {
    const int64_t step = stride[2];
    for (int32_t z = box->low[0]; z < box->high[0]; z++) {
        for (int32_t y = box->low[1]; y < box->high[1]; y++) {
            const int64_t row = ((int64_t)z * c->shape[1] + y) * c->shape[2] + box->low[2];
            const uint8_t *p = c->ours.voxels + row, *r = c->theirs.voxels + row;
            const int64_t end = box->high[2] - box->low[2];
            uint8_t *to = out + (z - box->low[0]) * stride[0] + (y - box->low[1]) * stride[1];
            for (int64_t x = 0; x < end; x++) {
                if (c->may_skip && !(p[x] | r[x]) && (x = next_nonzero(p, r, x, end)) >= end) break;
                to[x * step] = (uint8_t)((bits->ours[p[x]] & bits->keep[r[x]]) | bits->theirs[r[x]]);
            }
        }
    }
}

static int make_room(Corners *list, int64_t more) {
    if (list->n + more <= list->room) return 0;
    const int64_t room = 2 * list->room + more + 1024;
    Corner *items = realloc(list->items, (size_t)room * sizeof(Corner));
    if (!items) return -1;
    list->items = items;
    list->room = room;
    return 0;
}

/* Takes the boundary corners of one row: their bits, codes and, where only one mask of a label has them, places. */
static int take_row(Grid *g, int n_masks, const uint8_t *border, const uint8_t *const voxels[4], int32_t y, int32_t z) {
    const int64_t row = (int64_t)z * g->ny + y;
    for (int m = 0; m < n_masks; m++) {
        if (make_room(&g->apart[m], g->nx + 1)) return -1;
    }
    for (int32_t x0 = 0; x0 < g->nx; x0 += 8) {
        uint64_t eight = load8(border + x0);
        if (!eight) continue;
        for (int m = 0; m < n_masks; m++) {
            g->bits[m][row * g->words + ((x0 + MARGIN) >> 6)] |= (uint64_t)gather(eight >> m) << (x0 & 63);
        }
        while (eight) {
            const int place = zeros_below(eight) >> 3;
            const unsigned here = (eight >> (8 * place)) & 0xff;
            const int32_t x = x0 + place;
            const uint64_t around = load2(voxels[0] + x) | load2(voxels[1] + x) << 16 | load2(voxels[2] + x) << 32
                                    | load2(voxels[3] + x) << 48;
            eight &= ~((uint64_t)0xff << (8 * place));
            for (unsigned left = here; left;) {
                const int m = zeros_below(left) & ~1; /* the prediction of the next label that has a boundary here */
                const unsigned sides = left >> m & 3;
                const uint8_t ours = gather(around >> m), theirs = gather(around >> (m + 1));
                Corners *our_list = &g->apart[m], *their_list = &g->apart[m + 1];
                /* Without branches: a code that is no boundary has no area, a place not kept is written over. */
                g->codes[m][ours]++;
                g->codes[m + 1][theirs]++;
                our_list->items[our_list->n] = (Corner){x, y, z, ours};
                their_list->items[their_list->n] = (Corner){x, y, z, theirs};
                our_list->n += sides == 1;
                their_list->n += sides == 2;
                left &= ~(3u << m);
            }
        }
    }
    return 0;
}

/* Fills the grid from packed voxels: corner i of the grid lies between the voxels at i, i + 1, a row and a slice on. */
static int find_boundaries(Grid *g, int n_masks, const uint8_t *packed, int64_t slice, uint8_t *restrict border) {
    const int64_t nx = g->nx;
    uint8_t *restrict some = border + nx + 8, *restrict every = some + nx + 1;
    for (int32_t z = 0; z < g->nz; z++) {
        for (int32_t y = 0; y < g->ny; y++) {
            const uint8_t *a = packed + ((int64_t)z * g->ny + y) * nx, *b = a + nx, *c = a + slice, *d = b + slice;
            for (int64_t x = 0; x <= nx; x++) {
                some[x] = a[x] | b[x] | c[x] | d[x];
                every[x] = a[x] & b[x] & c[x] & d[x];
            }
            uint8_t any = 0;
            for (int64_t x = 0; x < nx; x++) {
                border[x] = (uint8_t)((some[x] | some[x + 1]) & ~(every[x] & every[x + 1]));
                any |= border[x];
            }
            const uint8_t *const voxels[4] = {a, b, c, d};
            if (any && take_row(g, n_masks, border, voxels, y, z)) return -1;
        }
    }
    return 0;
}

/* ---- distances ---- */

/* Columns from x to the nearest set bit of a row; if that is more than `limit`, any number above it. */
static int64_t nearest_bit(const uint64_t *row, int64_t words, int64_t x, int64_t limit) {
    const int64_t home = (x + MARGIN) >> 6, at = (x + MARGIN) & 63;
    int64_t found = INT32_MAX;
    for (int64_t i = home, gap = 0; i < words && gap <= limit; i++, gap = i * 64 - x - MARGIN) {
        const uint64_t word = i == home ? row[i] >> at : row[i];
        if (word) {
            found = gap + zeros_below(word);
            break;
        }
    }
    if (found < limit) limit = found;
    for (int64_t i = home, gap = 0; i >= 0 && gap <= limit; i--, gap = x + MARGIN - i * 64 - 63) {
        const uint64_t word = i == home ? row[i] << (63 - at) : row[i];
        if (word) return gap + zeros_above(word) < found ? gap + zeros_above(word) : found;
    }
    return found;
}

#define SIDEWAYS 31 /* columns on either side that one word shows */

/* 64 columns of a row: bit SIDEWAYS is column x. */
static inline uint64_t window(const uint64_t *row, int32_t x) {
    const int64_t first = x + MARGIN - SIDEWAYS;
    const int shift = first & 63;
    row += first >> 6;
    return row[0] >> shift | row[1] << 1 << (63 - shift);
}

/* A row near a corner: where it is, its squared distance, and how many columns of it on either side lie in the radius. */
typedef struct { int32_t y, z, columns; int64_t words; uint64_t shown; double square; } Near;

typedef struct { Near *rows; int64_t n; double squares[SIDEWAYS + 3]; } Around;

static int nearer(const void *a, const void *b) {
    const double x = ((const Near *)a)->square, y = ((const Near *)b)->square;
    return (x > y) - (x < y);
}

static double squared(double steps, double step) { return (steps * step) * (steps * step); }

/* Whole steps within a radius, of n places. */
static int32_t reach(double square, double step, int32_t n) {
    const double steps = floor(sqrt(square) / step);
    return steps < n - 1 ? (int32_t)steps : n - 1;
}

/* The rows within a radius, nearest first; without memory `rows` is NULL. */
static Around rows_within(const Case *c, const Grid *g, double square) {
    const int32_t ry = reach(square, c->step[1], g->ny), rz = reach(square, c->step[0], g->nz);
    Around around = {malloc((size_t)(2 * ry + 1) * (size_t)(2 * rz + 1) * sizeof(Near)), 0, {0}};
    if (!around.rows) return around;
    for (int32_t z = -rz; z <= rz; z++) {
        for (int32_t y = -ry; y <= ry; y++) {
            const double far = squared(z, c->step[0]) + squared(y, c->step[1]);
            if (far > square) continue;
            const int32_t columns = reach(square - far, c->step[2], g->nx);
            const int shown = columns < SIDEWAYS ? columns : SIDEWAYS;
            const uint64_t mask = (((uint64_t)2 << 2 * shown) - 1) << (SIDEWAYS - shown);
            around.rows[around.n++] = (Near){y, z, columns, ((int64_t)z * g->ny + y) * g->words, mask, far};
        }
    }
    qsort(around.rows, (size_t)around.n, sizeof(Near), nearer);
    for (int k = 0; k < SIDEWAYS + 3; k++) around.squares[k] = squared(k, c->step[2]);
    return around;
}

static inline int is_outside(const Grid *g, Corner at, const Near *row) {
    return (uint32_t)(at.y + row->y) >= (uint32_t)g->ny || (uint32_t)(at.z + row->z) >= (uint32_t)g->nz;
}

/* Whether any set bit lies within the radius of a corner; tries the row that had one for the corner before it first. */
static int has_neighbour(const Grid *g, const uint64_t *bits, Corner at, const Around *around, const Near **hint) {
    const uint64_t *home = bits + ((int64_t)at.z * g->ny + at.y) * g->words;
    if (!is_outside(g, at, *hint) && window(home + (*hint)->words, at.x) & (*hint)->shown) return 1;
    for (const Near *row = around->rows, *end = row + around->n; row < end; row++) {
        if (is_outside(g, at, row)) continue;
        int seen = (window(home + row->words, at.x) & row->shown) != 0;
        if (!seen && row->columns > SIDEWAYS) {
            seen = nearest_bit(home + row->words, g->words, at.x, row->columns) <= row->columns;
        }
        if (seen) {
            *hint = row;
            return 1;
        }
    }
    return 0;
}

/* Squared distance from a corner to the nearest set bit, of which there is one within the radius. */
static double nearest_square(const Case *c, const Grid *g, const uint64_t *bits, Corner at, const Around *around) {
    const uint64_t *home = bits + ((int64_t)at.z * g->ny + at.y) * g->words;
    double best = INFINITY;
    for (const Near *row = around->rows, *end = row + around->n; row < end && row->square < best; row++) {
        if (is_outside(g, at, row)) continue;
        const uint64_t seen = window(home + row->words, at.x);
        if (seen) {
            const int right = zeros_below(seen >> SIDEWAYS | (uint64_t)1 << (SIDEWAYS + 2));
            const int left = zeros_above(seen << (63 - SIDEWAYS) | (uint64_t)1 << (62 - SIDEWAYS));
            const int columns = right < left ? right : left;
            if (columns <= SIDEWAYS && row->square + around->squares[columns] < best) {
                best = row->square + around->squares[columns];
            }
            if (columns <= SIDEWAYS) continue;
        }
        if (row->columns > SIDEWAYS) {
            const int64_t columns = nearest_bit(home + row->words, g->words, at.x, row->columns);
            const double found = row->square + squared((double)columns, c->step[2]);
            if (columns <= row->columns && found < best) best = found;
        }
    }
    return best;
}

/* The smallest square within which `needed` area lies; reorders its input. */
static double weighted_quantile(Reached *items, int64_t n, double needed) {
    while (n > 1) {
        const double pivot = items[n / 2].square;
        int64_t below = 0, above = n, i = 0;
        double area_below = 0, area_at = 0;
        while (i < above) {
            const Reached item = items[i];
            if (item.square < pivot) {
                area_below += item.area;
                items[i++] = items[below];
                items[below++] = item;
            } else if (item.square > pivot) {
                items[i] = items[--above];
                items[above] = item;
            } else {
                area_at += item.area;
                i++;
            }
        }
        if (below && area_below >= needed) {
            n = below;
        } else if (above == n || area_below + area_at >= needed) {
            return pivot;
        } else {
            needed -= area_below + area_at;
            items += above;
            n -= above;
        }
    }
    return items[0].square;
}

/* The part of a grid that holds the given corners, or the set bits (rows and slices only). */
static Box box_of_corners(const Corner *corners, int64_t n) {
    Box box = NOWHERE;
    for (int64_t i = 0; i < n; i++) {
        const Corner at = corners[i];
        widen(&box, (int32_t[]){at.z, at.y, at.x}, (int32_t[]){at.z + 1, at.y + 1, at.x + 1});
    }
    return box;
}

static Box box_of_bits(const Grid *g, const uint64_t *bits) {
    Box box = NOWHERE;
    for (int32_t z = 0; z < g->nz; z++) {
        for (int32_t y = 0; y < g->ny; y++) {
            const uint64_t *row = bits + ((int64_t)z * g->ny + y) * g->words;
            for (int64_t i = 0; i < g->words; i++) {
                if (row[i]) {
                    widen(&box, (int32_t[]){z, y, 0}, (int32_t[]){z + 1, y + 1, g->nx});
                    break;
                }
            }
        }
    }
    return box;
}

/* Squared distance along a row to its nearest set bit, for columns low to high; returns whether any bit is set. */
static int along_row(const uint64_t *row, int64_t words, int32_t low, int32_t high, double step, double *out) {
    int64_t left = INT64_MIN / 2, x = low;
    for (int64_t i = 0; i < words && x < high; i++) {
        for (uint64_t word = row[i]; word && x < high; word &= word - 1) {
            const int64_t bit = i * 64 + zeros_below(word) - MARGIN;
            for (; x <= bit && x < high; x++) {
                out[x - low] = squared((double)(x - left < bit - x ? x - left : bit - x), step);
            }
            left = bit;
        }
    }
    if (left < 0) return 0;
    for (; x < high; x++) out[x - low] = squared((double)(x - left), step);
    return 1;
}

/* For one column, the lower envelope of parabolas over rows `first`..., read at rows from..to. */
static void down_column(const double *along, const uint8_t *filled, int64_t width, int32_t first, int32_t n, double step,
                        int32_t from, int32_t to, double *out, int32_t *at, double *until) {
    int32_t top = -1;
    for (int32_t y = 0; y < n; y++) {
        if (!filled[y]) continue;
        const double height = along[y * width] + squared(y, step);
        double meet = -INFINITY;
        while (top >= 0) {
            const int32_t below = at[top];
            meet = (height - along[below * width] - squared(below, step)) / (2 * step * step * (y - below));
            if (top == 0 || meet > until[top - 1]) break;
            top--;
        }
        if (top >= 0) until[top] = meet;
        at[++top] = y;
    }
    for (int32_t y = from, k = 0; y < to; y++) {
        while (k < top && until[k] < y - first) k++;
        out[(y - from) * width] = along[at[k] * width] + squared(y - first - at[k], step);
    }
}

/* Squared distance from every corner to the nearest set bit, by an exact transform of each slice that has bits. */
static int transform(const Case *c, const Grid *g, const Corner *corners, int64_t n, const uint64_t *bits, Box from,
                     Box to, Reached *out) {
    const int32_t rows = to.high[1] - to.low[1], out_rows = from.high[1] - from.low[1];
    const int64_t width = from.high[2] - from.low[2];
    double *along = malloc((size_t)(rows * width) * sizeof(double));
    double *plane = malloc((size_t)(out_rows * width) * sizeof(double));
    double *until = malloc((size_t)rows * sizeof(double));
    int32_t *at = malloc((size_t)rows * sizeof(int32_t));
    uint8_t *filled = malloc((size_t)rows);
    const int failed = !along || !plane || !until || !at || !filled;
    for (int64_t i = 0; i < n; i++) out[i] = (Reached){INFINITY, c->sizes[corners[i].code]};
    for (int32_t z = to.low[0]; z < to.high[0] && !failed; z++) {
        int any = 0;
        for (int32_t y = 0; y < rows; y++) {
            const uint64_t *row = bits + ((int64_t)z * g->ny + to.low[1] + y) * g->words;
            filled[y] = (uint8_t)along_row(row, g->words, from.low[2], from.high[2], c->step[2], along + y * width);
            any |= filled[y];
        }
        if (!any) continue;
        for (int64_t x = 0; x < width; x++) {
            down_column(along + x, filled, width, to.low[1], rows, c->step[1], from.low[1], from.high[1], plane + x, at,
                        until);
        }
        for (int64_t i = 0; i < n; i++) {
            const double deep = squared(corners[i].z - z, c->step[0]);
            if (deep >= out[i].square) continue;
            const double found = plane[(corners[i].y - from.low[1]) * width + corners[i].x - from.low[2]] + deep;
            if (found < out[i].square) out[i].square = found;
        }
    }
    free(along), free(plane), free(until), free(at), free(filled);
    return failed ? -1 : 0;
}

typedef struct {
    Box from, to;        /* where the corners lie, and the boundary they are measured to */
    const uint64_t *bits; /* of that boundary */
    double by_transform; /* steps a transform takes, without those for each corner */
} Search;

/* The squared distance within which `needed` area of some corners lies: `least` if that is enough, else exact. Negative
 * without memory. Seeks within `guess` first; the corners are overwritten. */
static double quantile(const Case *c, const Grid *g, const Search *s, Corner *corners, int64_t n, double needed,
                       double guess, double least) {
    Reached *reached = malloc((size_t)n * sizeof(Reached));
    Corner *ring = malloc((size_t)n * sizeof(Corner)); /* those beyond one radius and within the next */
    double answer = -1;
    const double depth = s->to.high[0] - s->to.low[0];
    for (double square = guess; reached && ring; square *= 2) {
        const double near_rows = (2.0 * reach(square, c->step[1], g->ny) + 1) * (2.0 * reach(square, c->step[0], g->nz) + 1);
        if ((double)n * 3 * near_rows > s->by_transform + 2 * depth * (double)n) {
            if (!transform(c, g, corners, n, s->bits, s->from, s->to, reached)) answer = weighted_quantile(reached, n, needed);
            break;
        }
        Around around = rows_within(c, g, square * SLACK);
        if (!around.rows) break;
        const Near *hint = around.rows;
        int64_t n_left = 0, n_ring = 0;
        double area = 0;
        for (int64_t i = 0; i < n; i++) {
            const Corner corner = corners[i];
            if (has_neighbour(g, s->bits, corner, &around, &hint)) {
                area += c->sizes[corner.code];
                ring[n_ring++] = corner;
            } else {
                corners[n_left++] = corner;
            }
        }
        const int is_enough = area >= needed || !n_left;
        if (is_enough && square <= least) {
            answer = least;
        } else if (is_enough) {
            for (int64_t i = 0; i < n_ring; i++) {
                reached[i] = (Reached){nearest_square(c, g, s->bits, ring[i], &around), c->sizes[ring[i].code]};
            }
            answer = weighted_quantile(reached, n_ring, needed);
        }
        free(around.rows);
        if (is_enough) break;
        needed -= area;
        n = n_left;
    }
    free(reached), free(ring);
    return answer >= 0 && answer < least ? least : answer;
}

/* The squared distance within which 95 % of the boundary of mask m lies of the other mask of its label: `least` if that
 * is enough, else exact. Negative without memory. */
static double directed(const Case *c, Grid *g, int m, double least) {
    Corner *corners = g->apart[m].items;
    const int64_t n = g->apart[m].n;
    int64_t apart_codes[256] = {0};
    double total = 0, apart = 0;
    for (int64_t i = 0; i < n; i++) apart_codes[corners[i].code]++;
    for (int code = 0; code < 256; code++) {
        total += (double)g->codes[m][code] * c->sizes[code];
        apart += (double)apart_codes[code] * c->sizes[code];
    }
    const double needed = SHARE * total - (total - apart);
    if (needed <= 0 || !n) return least;

    Search s = {box_of_corners(corners, n), box_of_bits(g, g->bits[m ^ 1]), g->bits[m ^ 1], 0};
    const double rows = s.to.high[1] - s.to.low[1], out_rows = s.from.high[1] - s.from.low[1];
    s.by_transform = (double)(s.to.high[0] - s.to.low[0]) * (s.from.high[2] - s.from.low[2]) * (5 * rows + 8 * out_rows);
    if (least > 0) return quantile(c, g, &s, corners, n, needed, least, least);
    double guess = squared(2, fmin(c->step[2], fmin(c->step[1], c->flat ? INFINITY : c->step[0])));
    if (n > 8 * SAMPLE) { /* what a few corners say of the answer tells how far to look for the rest */
        Corner sample[SAMPLE];
        double area = 0;
        for (int64_t i = 0; i < SAMPLE; i++) {
            sample[i] = corners[i * n / SAMPLE];
            area += c->sizes[sample[i].code];
        }
        guess = 0.6 * quantile(c, g, &s, sample, SAMPLE, needed / apart * area, guess, 0);
        if (guess < 0) return guess;
    }
    return quantile(c, g, &s, corners, n, needed, guess, 0);
}

/* ---- batches of labels ---- */

static void free_grid(Grid *g) {
    free(g->bits[0]);
    for (int m = 0; m < MASKS; m++) free(g->apart[m].items);
}

/* HD95 of up to four labels whose masks lie in a box; -1 without memory. */
static int score_batch(const Case *c, const int64_t *labels, int n_labels, const Box *box, double *hd95) {
    const Bits bits = bits_of(c, labels, n_labels);
    const int rim = !c->flat, n_masks = 2 * n_labels;
    int32_t size[3];
    int64_t stride[3];
    Grid g = {0};
    for (int k = 0; k < 3; k++) size[k] = box->high[c->order[k]] - box->low[c->order[k]];
    g.nz = size[0] + rim, g.ny = size[1] + 1, g.nx = size[2] + 1;
    g.words = (g.nx + 63) / 64 + 2 * MARGIN / 64;
    /* One row of zeros between rows (and one slice between slices) is the outside of both. */
    const int64_t slice = (int64_t)g.ny * g.nx, rows = (int64_t)g.nz * g.ny;
    stride[c->order[0]] = slice, stride[c->order[1]] = g.nx, stride[c->order[2]] = 1;
    uint8_t *packed = calloc((size_t)((g.nz + 1) * slice + g.nx + 64), 1), *border = calloc(3 * (size_t)g.nx + 16, 1);
    g.bits[0] = calloc((size_t)(rows * g.words * n_masks), sizeof(uint64_t));
    int failed = !packed || !border || !g.bits[0];
    if (!failed) {
        for (int m = 1; m < n_masks; m++) g.bits[m] = g.bits[0] + m * rows * g.words;
        pack(c, box, &bits, packed + (rim ? slice : 0) + g.nx + 1, stride);
        failed = find_boundaries(&g, n_masks, packed, rim ? slice : 0, border);
    }
    for (int k = 0; k < n_labels && !failed; k++) {
        double square = directed(c, &g, 2 * k, 0);
        if (square >= 0) square = directed(c, &g, 2 * k + 1, square);
        failed = square < 0;
        hd95[labels[k]] = sqrt(square);
    }
    free(packed), free(border), free_grid(&g);
    return failed ? -1 : 0;
}

static double volume(const Box *box) {
    double voxels = 1;
    for (int axis = 0; axis < 3; axis++) voxels *= box->high[axis] - box->low[axis];
    return voxels;
}

/* Labels that lie together share a batch: as long as their common box is no larger than their boxes. */
static int score_labels(const Case *c, const Box *boxes, const uint8_t *wanted, double *hd95) {
    int64_t batch[LABELS_PER_BYTE];
    int n = 0;
    Box box = NOWHERE;
    for (int64_t label = 0; label < c->n_labels; label++) {
        if (!wanted[label]) continue;
        Box joint = box;
        widen(&joint, boxes[label].low, boxes[label].high);
        if (n == LABELS_PER_BYTE || (n && volume(&joint) > volume(&box) + volume(&boxes[label]))) {
            if (score_batch(c, batch, n, &box, hd95)) return -1;
            n = 0;
            joint = boxes[label];
        }
        batch[n++] = label;
        box = joint;
    }
    return n ? score_batch(c, batch, n, &box, hd95) : 0;
}

/* Everything between the buffers in and the buffers out; runs without the GIL. */
static int score_case(const Case *c, int boundary, int components, int64_t *confusion, int64_t *ignored,
                      int32_t *label_boxes, double *hd95, int64_t *n_pieces) {
    const int64_t n_truths = c->theirs.n_codes, n_pairs = c->ours.n_codes * n_truths;
    Pair *pairs = malloc((size_t)n_pairs * sizeof(Pair));
    Box *boxes = malloc((size_t)c->n_labels * sizeof(Box));
    uint8_t *sides = calloc((size_t)c->n_labels, 1);
    Pieces *pieces = calloc((size_t)(2 * c->n_labels), sizeof(Pieces));
    int failed = !pairs || !boxes || !sides || !pieces;
    if (!failed) {
        for (int64_t i = 0; i < n_pairs; i++) pairs[i] = (Pair){0, NOWHERE};
        *ignored = read_pairs(c, pairs, components ? pieces : NULL);
        failed = *ignored < 0;
        for (int64_t label = 0; label < c->n_labels; label++) {
            boxes[label] = NOWHERE;
            for (int64_t i = 0; i < n_pairs; i++) {
                const int inside = c->ours.members[i / n_truths * c->n_labels + label];
                const int truly = c->theirs.members[i % n_truths * c->n_labels + label];
                if (!pairs[i].count || !(inside | truly)) continue;
                sides[label] |= (uint8_t)(inside | truly << 1);
                widen(&boxes[label], pairs[i].box.low, pairs[i].box.high);
            }
            memcpy(label_boxes + 6 * label, &boxes[label], sizeof(Box));
            sides[label] = sides[label] == 3; /* from here on: whether both masks are there */
        }
        for (int64_t i = 0; i < n_pairs; i++) confusion[i] = pairs[i].count;
        for (int64_t i = 0; i < 2 * c->n_labels; i++) {
            n_pieces[i] = pieces[i].pieces;
            free(pieces[i].runs);
        }
        if (boundary && !failed) failed = score_labels(c, boxes, sides, hd95);
    }
    free(pairs), free(boxes), free(sides), free(pieces);
    return failed ? -1 : 0;
}

/* ---- the door to Python ---- */

enum { OURS, THEIRS, OUR_CODES, THEIR_CODES, OUR_MEMBERS, THEIR_MEMBERS, SIZES, CONFUSION, IGNORED, BOXES, HD95, PIECES,
       BUFFERS };

PyDoc_STRVAR(score_doc,
             "score(prediction, reference, codes, codes, members, members, sizes, confusion, ignored, boxes, hd95, pieces,\n"
             "      shape, order, step_mm, ignore, flat, boundary, components)\n\n"
             "Fill confusion to pieces from two arrays of bytes. See segaudit.metrics.compiled.");

static PyObject *score(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *objects[BUFFERS];
    Py_buffer views[BUFFERS];
    Case c = {0};
    int boundary, components, n_views = 0, failed = 0;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOO(iii)(iii)(ddd)ippp:score", &objects[0], &objects[1], &objects[2],
                          &objects[3], &objects[4], &objects[5], &objects[6], &objects[7], &objects[8], &objects[9],
                          &objects[10], &objects[11], &c.shape[0], &c.shape[1], &c.shape[2], &c.order[0], &c.order[1],
                          &c.order[2], &c.step[0], &c.step[1], &c.step[2], &c.ignore, &c.flat, &boundary,
                          &components)) {
        return NULL;
    }
    for (; n_views < BUFFERS; n_views++) {
        const int flags = n_views < CONFUSION ? PyBUF_C_CONTIGUOUS : PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE;
        if (PyObject_GetBuffer(objects[n_views], &views[n_views], flags)) goto done;
    }
    c.n_labels = views[HD95].len / (Py_ssize_t)sizeof(double);
    c.ours = (Side){views[OURS].buf, views[OUR_CODES].buf, views[OUR_MEMBERS].buf, 0};
    c.theirs = (Side){views[THEIRS].buf, views[THEIR_CODES].buf, views[THEIR_MEMBERS].buf, 0};
    c.ours.n_codes = c.n_labels ? views[OUR_MEMBERS].len / c.n_labels : 0;
    c.theirs.n_codes = c.n_labels ? views[THEIR_MEMBERS].len / c.n_labels : 0;
    c.sizes = views[SIZES].buf;
    int fits = c.n_labels > 0 && c.shape[0] > 0 && c.shape[1] > 0 && c.shape[2] > 0;
    fits = fits && views[OURS].len == product(c.shape) && views[THEIRS].len == product(c.shape);
    fits = fits && views[OUR_CODES].len == 256 && views[THEIR_CODES].len == 256 && views[SIZES].len == 256 * 8;
    fits = fits && views[OUR_MEMBERS].len == c.ours.n_codes * c.n_labels;
    fits = fits && views[THEIR_MEMBERS].len == c.theirs.n_codes * c.n_labels && views[IGNORED].len == 8;
    fits = fits && views[CONFUSION].len == c.ours.n_codes * c.theirs.n_codes * 8 && views[BOXES].len == c.n_labels * 24;
    fits = fits && views[PIECES].len == c.n_labels * 16;
    fits = fits && (!c.flat || (c.shape[0] == 1 && c.order[0] == 0));
    fits = fits && ((1 << (c.order[0] & 7)) | (1 << (c.order[1] & 7)) | (1 << (c.order[2] & 7))) == 7;
    for (int value = 0; fits && value < 256; value++) {
        fits = c.ours.codes[value] < c.ours.n_codes && c.theirs.codes[value] < c.theirs.n_codes;
    }
    for (int k = 0; k < 3; k++) fits = fits && c.step[k] > 0;
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the buffers do not fit each other");
        goto done;
    }
    c.may_skip = !c.ours.codes[0] && !c.theirs.codes[0];
    Py_BEGIN_ALLOW_THREADS
    failed = score_case(&c, boundary, components, views[CONFUSION].buf, views[IGNORED].buf, views[BOXES].buf,
                        views[HD95].buf, views[PIECES].buf);
    Py_END_ALLOW_THREADS
    if (failed) PyErr_NoMemory();
done:
    while (n_views-- > 0) PyBuffer_Release(&views[n_views]);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* The code of each voxel of a wider type: equal neighbours are looked up once, and zeros not at all if they have none. */
#define RENUMBER(type)                                                                                                   \
    static void renumber_##type(const type *voxels, int64_t n, const type *known, int64_t n_known, const uint8_t *codes, \
                                uint8_t *out) {                                                                          \
        type last = 0;                                                                                                   \
        uint8_t code = 0;                                                                                                \
        for (int64_t k = 0; k < n_known; k++) code = known[k] == 0 ? codes[k] : code;                                    \
        const int may_skip = !code;                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                                \
            if (may_skip && !voxels[i]) {                                                                                \
                i = next_nonzero((const uint8_t *)voxels, (const uint8_t *)voxels, i * (int64_t)sizeof(type),            \
                                 n * (int64_t)sizeof(type)) / (int64_t)sizeof(type);                                     \
                if (i >= n) break;                                                                                       \
            }                                                                                                            \
            if (voxels[i] != last) {                                                                                     \
                last = voxels[i];                                                                                        \
                code = 0;                                                                                                \
                for (int64_t k = 0; k < n_known && !code; k++) code = known[k] == last ? codes[k] : 0;                   \
            }                                                                                                            \
            out[i] = code;                                                                                               \
        }                                                                                                                \
    }

RENUMBER(uint16_t)
RENUMBER(uint32_t)
RENUMBER(uint64_t)

PyDoc_STRVAR(renumber_doc, "renumber(voxels, known, codes, out)\n\nFill zeros with the code of every known value.");

static PyObject *renumber(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *objects[4];
    Py_buffer views[4];
    int n_views = 0;
    if (!PyArg_ParseTuple(args, "OOOO:renumber", &objects[0], &objects[1], &objects[2], &objects[3])) return NULL;
    for (; n_views < 4; n_views++) {
        const int flags = n_views < 3 ? PyBUF_C_CONTIGUOUS : PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE;
        if (PyObject_GetBuffer(objects[n_views], &views[n_views], flags)) goto done;
    }
    const Py_ssize_t n = views[3].len, n_known = views[2].len, width = views[0].itemsize;
    if (views[0].len != n * width || views[1].len != n_known * width || (width != 2 && width != 4 && width != 8)) {
        PyErr_SetString(PyExc_ValueError, "the buffers do not fit each other");
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    if (width == 2) renumber_uint16_t(views[0].buf, n, views[1].buf, n_known, views[2].buf, views[3].buf);
    if (width == 4) renumber_uint32_t(views[0].buf, n, views[1].buf, n_known, views[2].buf, views[3].buf);
    if (width == 8) renumber_uint64_t(views[0].buf, n, views[1].buf, n_known, views[2].buf, views[3].buf);
    Py_END_ALLOW_THREADS
done:
    while (n_views-- > 0) PyBuffer_Release(&views[n_views]);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* Counts how often each value but zero occurs, in a table of 2^bits places (free where the count is 0); returns the
 * number of different values, or -1 when they fill more than half of it. */
static inline int64_t count_values(const uint8_t *at, int64_t n_bytes, int64_t width, uint64_t *values, int64_t *counts,
                                   int bits) {
    int64_t n = 0;
    for (int64_t i = 0; (i = next_nonzero(at, at, i, n_bytes)) < n_bytes;) {
        uint64_t value = 0;
        i -= i % width;
        memcpy(&value, at + i, (size_t)width);
        const uint64_t once_each = width == 1 ? ONES : width == 2 ? 0x0001000100010001u : width == 4 ? 0x100000001u : 1;
        const uint64_t eight = value * once_each;
        const int64_t start = i;
        while (i + 8 <= n_bytes && load8(at + i) == eight) i += 8;
        while (i < n_bytes && !memcmp(at + i, &value, (size_t)width)) i += width;
        uint64_t place = (value * 0x9E3779B97F4A7C15u) >> (64 - bits);
        while (counts[place] && values[place] != value) place = (place + 1) & ((1u << bits) - 1);
        if (!counts[place] && ++n > 1 << (bits - 1)) return -1;
        values[place] = value;
        counts[place] += (i - start) / width;
    }
    return n;
}

PyDoc_STRVAR(count_doc, "count(voxels, values, counts)\n\n"
                        "Fill a table of 4096 values and their counts; return how many there are, -1 for too many.");

#define TABLE_BITS 12

static PyObject *count(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *objects[3];
    Py_buffer views[3];
    int n_views = 0;
    int64_t found = 0;
    if (!PyArg_ParseTuple(args, "OOO:count", &objects[0], &objects[1], &objects[2])) return NULL;
    for (; n_views < 3; n_views++) {
        const int flags = n_views ? PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE : PyBUF_C_CONTIGUOUS;
        if (PyObject_GetBuffer(objects[n_views], &views[n_views], flags)) goto done;
    }
    const Py_ssize_t n_bytes = views[0].len, width = views[0].itemsize, table = 8 << TABLE_BITS;
    if (views[1].len != table || views[2].len != table || (width != 1 && width != 2 && width != 4 && width != 8)) {
        PyErr_SetString(PyExc_ValueError, "the buffers do not fit each other");
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    if (width == 1) found = count_values(views[0].buf, n_bytes, 1, views[1].buf, views[2].buf, TABLE_BITS);
    if (width == 2) found = count_values(views[0].buf, n_bytes, 2, views[1].buf, views[2].buf, TABLE_BITS);
    if (width == 4) found = count_values(views[0].buf, n_bytes, 4, views[1].buf, views[2].buf, TABLE_BITS);
    if (width == 8) found = count_values(views[0].buf, n_bytes, 8, views[1].buf, views[2].buf, TABLE_BITS);
    Py_END_ALLOW_THREADS
done:
    while (n_views-- > 0) PyBuffer_Release(&views[n_views]);
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromLongLong(found);
}

static PyMethodDef methods[] = {
    {"score", score, METH_VARARGS, score_doc},
    {"renumber", renumber, METH_VARARGS, renumber_doc},
    {"count", count, METH_VARARGS, count_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef kernel = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "segaudit.metrics._kernel",
    .m_doc = "One case in one pass: confusion, pieces and HD95 of two label arrays of bytes.",
    .m_methods = methods,
    .m_slots = slots,
};

/* glibc hands every block of some MB back to the system when it is freed, and each image and grid would fault in all of
 * its pages anew, which costs more than inflating it. How much it keeps follows the largest block freed so far, up to
 * 32 MiB: one that is never touched teaches it. Elsewhere this does nothing. */
static void keep_freed_memory(void) {
    void *volatile block = malloc((size_t)31 << 20);
    free(block);
}

PyMODINIT_FUNC PyInit__kernel(void) {
    keep_freed_memory();
    return PyModuleDef_Init(&kernel);
}
