/* What a read costs that misses the caches near a core, by the size of what is read at random: a line of 64 bytes after
 * the other where each says which is next, and where all are known ahead, so that many reads are under way at a time.
 *     cc -O2 bench/sim_speed/chase.c -o chase && ./chase
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { READS = 4000000 };
typedef uint32_t Line[16];

static double cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(void) {
    printf("%8s %12s %16s\n", "MB", "chain, ns", "known ahead, ns");
    for (size_t mb = 1; mb <= 256; mb *= 2) {
        size_t lines = mb << 14;
        Line *line = aligned_alloc(64, lines * sizeof(Line));
        uint32_t *order = malloc(lines * sizeof *order);
        uint64_t random = 1;
        if (!line || !order) return 1;
        for (size_t i = 0; i < lines; i++) order[i] = i;
        for (size_t i = lines - 1; i; i--) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            size_t j = (random >> 33) % i;
            uint32_t swap = order[i];
            order[i] = order[j], order[j] = swap;
        }
        for (size_t i = 0; i < lines; i++) line[order[i]][0] = order[(i + 1) % lines];
        uint32_t at = 0, sum = 0;
        for (size_t i = 0; i < lines; i++) at = line[at][0];
        double begin = cpu_ns();
        for (size_t i = 0; i < READS; i++) at = line[at][0];
        double chain = cpu_ns() - begin;
        begin = cpu_ns();
        for (size_t i = 0, place = 0; i < READS; i++) {
            sum += line[order[place]][0];
            if (++place == lines) place = 0;
        }
        double ahead = cpu_ns() - begin;
        printf("%8zu %12.1f %16.1f\n", mb, chain / READS, ahead / READS);
        /* What was read is used, or a compiler would leave the reads out. */
        if (at + sum == 1) puts("");
        free(line);
        free(order);
    }
}
