"""The named streams of random numbers of `crates/base/src/rng.rs`, from the published algorithms alone, so
that an oracle and the discipline under test see identical draws. `golden.rs` builds its disciplines with
seed 1 under the name "golden"."""

MASK = 2**64 - 1


def fnv1a(name):
    """FNV-1a, 64 bits."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def rotl(x, k):
    return ((x << k) | (x >> (64 - k))) & MASK


class Stream:
    """xoshiro256++ (Blackman, Vigna), its state filled by SplitMix64 (Steele, Lea, Flood)."""

    def __init__(self, name, seed=1):
        x = seed ^ rotl(fnv1a(name), 32)
        self.s = []
        for _ in range(4):
            x = (x + 0x9E3779B97F4A7C15) & MASK
            z = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
            self.s.append(z ^ (z >> 31))

    def next_u64(self):
        s = self.s
        out = (rotl((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotl(s[3], 45)
        return out

    def uniform(self):
        """A number in [0, 1) from the top 53 bits of one draw."""
        return (self.next_u64() >> 11) / 2**53
