"""Maximum-likelihood fits of five families by scipy, for `crates/stats/src/fit`, and the points of A².

    python3 reference/fits.py golden > crates/stats/tests/golden/fits.txt
    python3 reference/fits.py points      # the tables GAMMA and PARETO of fit/goodness.rs

Needs numpy and scipy (the golden file names the versions). Samples are drawn from the named streams of streams.py, so the
test draws the same ones.
"""

import sys

import numpy as np
import scipy
import scipy.optimize as opt
import scipy.special as sp
import scipy.stats as st

from streams import Stream


def draw(law, shape, n):
    s = Stream(f"fits/{law}/{shape}")
    u = np.array([s.uniform() for _ in range(n)])
    # Scales of 1000 show an optimiser that likes values of order one.
    if law == "weibull":
        return 1000.0 * (-np.log1p(-u)) ** (1.0 / shape)
    return 1000.0 * np.expm1(-np.log1p(-u) / shape)


def polish(nll, start):
    best = opt.minimize(nll, start, method="Nelder-Mead",
                        options=dict(xatol=1e-11, fatol=1e-12, maxiter=20000, maxfev=20000))
    return best.x, -best.fun


def fit(family, x):
    """Parameters as the Rust code orders them, and the log-likelihood."""
    if family == "exponential":
        return [x.mean()], st.expon(scale=x.mean()).logpdf(x).sum(), st.expon(scale=x.mean())
    if family == "log-normal":
        mu, sigma = np.log(x).mean(), np.log(x).std()
        law = st.lognorm(sigma, scale=np.exp(mu))
        return [mu, sigma], law.logpdf(x).sum(), law
    make = {"Weibull": lambda a, b: st.weibull_min(a, scale=b),
            "gamma": lambda a, b: st.gamma(a, scale=b),
            "Pareto": lambda a, b: st.lomax(a, scale=b)}[family]
    unit = x.mean()
    best = None
    for start in ([0.0, 0.0], [-1.0, -1.0], [1.0, 1.0], [-1.5, -4.0], [1.5, 1.5]):
        p, ll = polish(lambda q: -make(np.exp(q[0]), unit * np.exp(q[1])).logpdf(x).sum(), start)
        if best is None or ll > best[1]:
            best = (p, ll)
    a, b = np.exp(best[0][0]), unit * np.exp(best[0][1])
    if family == "Pareto" and a > 1e3:
        return None, None, None
    return [a, b], best[1], make(a, b)


def golden():
    print("# law shape n family parameters… log_likelihood D A2;"
          f" scipy {scipy.__version__}, numpy {np.__version__}: python3 reference/fits.py golden")
    n = 300
    for law, shapes in (("weibull", ["0.2", "0.5", "1", "2", "5"]), ("pareto", ["0.8", "1.5", "4"])):
        for shape in shapes:
            x = np.sort(draw(law, float(shape) if "." in shape else int(shape), n))
            for family in ("Weibull", "exponential", "log-normal", "Pareto", "gamma"):
                p, ll, dist = fit(family, x)
                if p is None:
                    print(law, shape, n, family, "none")
                    continue
                u = dist.cdf(x)
                i = np.arange(1, n + 1)
                d = max((i / n - u).max(), (u - (i - 1) / n).max())
                a2 = -n - ((2 * i - 1) * (dist.logcdf(x) + dist.logsf(x)[::-1])).sum() / n
                print(law, shape, n, family, *[f"{v:.9g}" for v in p], f"{ll:.9g} {d:.6g} {a2:.6g}")


def a2(u):
    n = u.shape[1]
    u = np.clip(np.sort(u, axis=1), 1e-300, 1 - 1e-16)
    i = np.arange(1, n + 1)
    return -n - ((2 * i - 1) * (np.log(u) + np.log1p(-u[:, ::-1]))).sum(axis=1) / n


def points():
    """95 % points of A² at n = 500, both parameters estimated, by 8000 samples each."""
    rng, n, runs = np.random.default_rng(1), 500, 8000
    for shape in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0):
        found = []
        for _ in range(runs // 500):
            x = rng.gamma(shape, size=(500, n))
            x = np.maximum(x, 1e-300)
            s = np.log(x.mean(axis=1)) - np.log(x).mean(axis=1)
            k = (3 - s + np.sqrt((s - 3) ** 2 + 24 * s)) / (12 * s)
            for _ in range(12):
                k -= (np.log(k) - sp.digamma(k) - s) / (1 / k - sp.polygamma(1, k))
            found.append(a2(sp.gammainc(k[:, None], x * (k / x.mean(axis=1))[:, None])))
        print("gamma", shape, round(float(np.quantile(np.concatenate(found), 0.95)), 3))
    for shape in (0.2, 0.5, 1.0, 2.0, 3.0, 5.0):
        found = []
        for _ in range(runs // 500):
            x = rng.pareto(shape, size=(500, n))
            # The likelihood over the scale alone: the best shape at each is n / Σ ln(1 + x/scale).
            def profile(q):
                m = np.log1p(x / np.exp(q)[:, None]).mean(axis=1)
                return -np.log(m) - q - m
            low, high = np.full(500, -6.0 - 2 / shape), np.full(500, 9.0 + 2 / shape)
            g = (np.sqrt(5) - 1) / 2
            for _ in range(60):
                a, b = high - g * (high - low), low + g * (high - low)
                better = profile(a) > profile(b)
                high, low = np.where(better, b, high), np.where(better, low, a)
            q = (low + high) / 2
            alpha = 1 / np.log1p(x / np.exp(q)[:, None]).mean(axis=1)
            there = alpha < 1000
            u = -np.expm1(-alpha[:, None] * np.log1p(x / np.exp(q)[:, None]))
            found.append(a2(u[there]))
        print("pareto", shape, round(float(np.quantile(np.concatenate(found), 0.95)), 3))


if __name__ == "__main__":
    {"golden": golden, "points": points}[sys.argv[1]]()
