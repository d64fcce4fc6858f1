// The closed forms of fgrpo_theory in doubles, in the same forms in which nothing cancels. No state, no page.
// Each function names its Python twin; tests/figures/test_explore_browser.py compares them on a grid.
const laws = (() => {
  const TINY = 2 ** -1022;
  const CUT = 1e-40; // a count this much rarer than the mode is left out of a binomial mean
  const KEPT = 64; // but never one this close to the mode

  const log1m = (x) => Math.log1p(-x);

  // 1 - (1 - x)^n - x^n for x in [0, 1/2]
  function activity(n, x) {
    return n === 1 ? 0 : -Math.expm1(n * log1m(x)) - Math.exp(n * Math.log(x));
  }

  function logActivity(n, x) {
    const value = activity(n, x);
    return value > 0.5 ? Math.log1p(-(Math.exp(n * log1m(x)) + x ** n)) : Math.log(value);
  }

  const minority = (mu, tau) => Math.min(1 - mu, mu - tau) / Math.max(1 - tau, TINY);

  const logMiss = (n, mu, tau) => n * log1m(tau) + logActivity(n, minority(mu, tau));

  // active_probability, eq. 7
  const activeProbability = (n, mu) => activity(n, Math.min(mu, 1 - mu));

  // tail_miss_probability, Lemma 3.1
  const tailMissProbability = (n, mu, tau) => Math.exp(n * log1m(tau)) * activity(n, minority(mu, tau));

  // conditional_tail_miss_probability; NaN where no group is ever active
  function conditionalTailMissProbability(n, mu, tau) {
    const active = logActivity(n, Math.min(mu, 1 - mu));
    return active === -Infinity ? NaN : Math.exp(logMiss(n, mu, tau) - active);
  }

  // The least whole n in [low, high] for which a condition that turns true once holds; it holds at high.
  function least(condition, low, high) {
    let below = low - 1;
    let above = Math.max(low, high);
    while (above - below > 1) {
      const middle = Math.floor((below + above) / 2);
      if (condition(middle)) above = middle;
      else below = middle;
    }
    return above;
  }

  const neverMissed = (mu, tau) => tau >= mu || mu >= 1;

  // peak_group_size: the least N with mu (a/s)^N + (a + tau) (b/s)^N <= tau; null where nothing is ever missed
  function peakGroupSize(mu, tau) {
    if (neverMissed(mu, tau)) return null;
    const a = 1 - mu, b = mu - tau, s = 1 - tau;
    const logA = a < b ? Math.log(a / s) : log1m(b / s);
    const logB = a < b ? log1m(a / s) : Math.log(b / s);
    const logMu = Math.log(mu), logTau = Math.log(tau), logNotB = Math.log(a + tau);
    const pastPeak = (n) => {
      const first = logMu + n * logA, second = logNotB + n * logB;
      const larger = Math.max(first, second);
      return logTau >= larger + Math.log1p(Math.exp(Math.min(first, second) - larger));
    };
    const high = Math.max((logTau - Math.LN2 - logMu) / logA, (logTau - Math.LN2 - logNotB) / logB);
    return least(pastPeak, 2, Math.ceil(high) + 2);
  }

  // f(N) < (1 - tau)^N, so from here on it is below the target
  const surelyBelow = (logTarget, tau, peak) => Math.ceil((peak + 2 + Math.ceil(logTarget / log1m(tau))) * (1 + 1e-12));

  // concentration_zone; null where nothing is ever missed
  function concentrationZone(mu, tau, level = 0.5) {
    const peak = peakGroupSize(mu, tau);
    if (peak === null) return null;
    const target = logMiss(peak, mu, tau) + Math.log(level);
    const lowest = least((n) => logMiss(n, mu, tau) >= target, 2, peak);
    const past = least((n) => logMiss(n, mu, tau) < target, peak + 1, surelyBelow(target, tau, peak));
    return [lowest, past - 1];
  }

  // covering_group_size
  function coveringGroupSize(mu, tau, maxMiss) {
    const peak = peakGroupSize(mu, tau);
    if (peak === null) return 1;
    const target = Math.log(maxMiss);
    return least((n) => logMiss(n, mu, tau) <= target, peak, surelyBelow(target, tau, peak));
  }

  // focal_weight, eq. 12
  const focalWeight = (successRate, gamma) => (1 - successRate) ** gamma;

  // advantage_magnitudes, figure 4
  const advantageMagnitudes = (mu, gamma) => [
    (1 - mu) ** (gamma + 0.5) / Math.sqrt(mu),
    Math.sqrt(mu) * (1 - mu) ** (gamma - 0.5),
  ];

  // binomial_weights: [first count, weights], by the recurrence outward from the mode, then normalised
  function binomialWeights(n, chance) {
    const odds = chance / (1 - chance);
    const mode = Math.min(n, Math.floor((n + 1) * chance));
    const below = [], above = [];
    for (let k = mode, p = 1; k > 0 && (mode - k < KEPT || p >= CUT); k--) {
      p *= k / (n - k + 1) / odds;
      below.push(p);
    }
    for (let k = mode, p = 1; k < n && (k - mode < KEPT || p >= CUT); k++) {
      p *= ((n - k) / (k + 1)) * odds;
      above.push(p);
    }
    const weights = [...below.reverse(), 1, ...above];
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return [mode - below.length, weights.map((weight) => weight / total)];
  }

  // E[value(X)] for X ~ Binomial(n, m / (m + notM)), from the rarer outcome, whose chance keeps its digits
  function binomialMean(n, m, notM, value) {
    if (n === 0) return value(0);
    const [first, weights] = binomialWeights(n, Math.min(m, notM) / (m + notM));
    const count = (index) => (m <= notM ? first + index : n - first - index);
    return weights.reduce((sum, weight, index) => sum + weight * value(count(index)), 0);
  }

  const weightOfCounts = (n, k, gamma) => ((n - k) / n) ** gamma;

  // expected_update_scale with ddof 1 and eps 0: E[g |A|]
  function expectedUpdateScale(n, mu, gamma) {
    const size = (k) =>
      k === 0 || k === n ? 0 : weightOfCounts(n, k, gamma) * 2 * Math.sqrt((k / n) * ((n - k) / n) * ((n - 1) / n));
    return mu === 0 || mu === 1 ? 0 : binomialMean(n, mu, 1 - mu, size);
  }

  // expected_mass_changes with surrogate "ratio", rewards 1 and 0, std_scaled, ddof 1, eps 0, learning rate 1, for the
  // policy of the page: one rare-correct answer (tau), one common correct answer (mu - tau), equal wrong answers.
  function expectedMassChanges(n, mu, tau, gamma, wrongAnswers) {
    if (n === 1 || mu >= 1) return [0, 0];
    const wrong = 1 - mu, common = mu - tau;
    const wrongSecond = wrong * (wrong / wrongAnswers);
    const tilted = (m) =>
      binomialMean(n - 2, m, wrong, (y) => {
        const k = y + 1;
        return weightOfCounts(n, k, gamma) / Math.sqrt((k / n) * ((n - k) / (n - 1)));
      });
    const factor = (n - 1) / n;
    const total = factor * tilted(mu) * (wrong ** 2 * (tau ** 2 + common ** 2) + mu ** 2 * wrongSecond);
    const unsampled = (p, rest) => {
      const alone = n === 2 ? 1 : Math.exp((n - 2) * (p < 0.5 ? log1m(p) : Math.log(rest + wrong)));
      return rest > 0 ? p * alone * tilted(rest) * (wrong * rest ** 2 - rest * wrongSecond) : 0;
    };
    return [total, -factor * (unsampled(tau, common) + (common > 0 ? unsampled(common, tau) : 0))];
  }

  return {
    activeProbability, tailMissProbability, conditionalTailMissProbability, peakGroupSize, concentrationZone,
    coveringGroupSize, focalWeight, advantageMagnitudes, expectedUpdateScale, expectedMassChanges,
  };
})();
