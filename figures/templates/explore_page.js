// The page: five settings, kept in the address; what they give, in a sentence, in numbers and in curves.
const page = (() => {
  const WRONG_ANSWERS = Number("{{ wrong_answers }}");
  const HALF_ZONE = 0.5;

  const unique = (values) => [...new Set(values)];
  const span = (count, value) => unique(Array.from({ length: count }, (_, index) => value(index)));
  const logit = (position) => Number((1 / (1 + Math.exp(-position))).toPrecision(3));

  // name: {stops of the slider, [rule in words, does it hold?], default}
  const CONTROLS = {
    N: { stops: span(81, (i) => Math.round(2 ** (i / 4))), rule: "a whole number from 1 to 1,048,576", start: 8,
      holds: (v) => Number.isInteger(v) && v >= 1 && v <= 2 ** 20 },
    mu: { stops: span(139, (i) => logit((i - 69) / 10)), rule: "above 0 and below 1", start: 0.3, holds: (v) => v >= 1e-9 && v < 1 },
    rho: { stops: span(81, (i) => Number((10 ** ((i - 80) / 20)).toPrecision(2))), rule: "above 0 and at most 1", start: 0.1,
      holds: (v) => v >= 1e-6 && v <= 1 },
    gamma: { stops: span(81, (i) => i / 20), rule: "from 0 to 16", start: 1, holds: (v) => v >= 0 && v <= 16 },
    miss: { stops: span(61, (i) => Number((10 ** ((i - 60) / 20)).toPrecision(2))), rule: "above 0 and at most 1", start: 0.05,
      holds: (v) => v >= 1e-12 && v <= 1 },
  };
  const NAMES = Object.keys(CONTROLS);
  const SYMBOLS = { N: "N", mu: "mu", rho: "rho", gamma: "gamma", miss: "the accepted tail miss" };
  const state = Object.fromEntries(NAMES.map((name) => [name, CONTROLS[name].start]));
  const byId = (id) => document.getElementById(id);

  const percent = (value) => (value === 0 ? "0 %" : value < 1e-4 ? `${value.toExponential(1)}` : `${Number((100 * value).toPrecision(3))} %`);
  const plain = (value) => (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4))));
  const whole = (value) => value.toLocaleString("en-GB");
  const short = (value) => (value >= 2 ** 20 ? `${value / 2 ** 20}M` : value >= 1024 ? `${value / 1024}k` : String(value));

  // Everything that the page says, from the settings alone.
  function results({ N, mu, rho, gamma, miss }) {
    const tau = rho * mu;
    const [rise, unsampled] = laws.expectedMassChanges(N, mu, tau, gamma, WRONG_ANSWERS);
    const [up, down] = laws.advantageMagnitudes(mu, gamma);
    const kept = N === 1 ? NaN : laws.expectedUpdateScale(N, mu, gamma) / laws.expectedUpdateScale(N, mu, 0);
    return {
      tau, rise, unsampled, up, down, kept,
      active: laws.activeProbability(N, mu),
      tail: laws.tailMissProbability(N, mu, tau),
      given: laws.conditionalTailMissProbability(N, mu, tau),
      peak: laws.peakGroupSize(mu, tau),
      zone: laws.concentrationZone(mu, tau, HALF_ZONE),
      cover: laws.coveringGroupSize(mu, tau, miss),
      weight: laws.focalWeight(mu, gamma),
    };
  }

  function sentence({ N, gamma, miss, rho }, r) {
    const parts = [];
    if (r.peak === null) {
      parts.push("All correct answers count as rare here, so an active group always holds one: nothing is missed at any N.");
    } else {
      const where = N < r.zone[0] ? "below" : N > r.zone[1] ? "above" : "inside";
      parts.push(`At N = ${whole(N)}, ${percent(r.tail)} of groups update and miss the rare correct answers (${percent(rho)} of the correct ones): ` +
        `${where} the concentration zone, N = ${whole(r.zone[0])} to ${whole(r.zone[1])}.`);
      parts.push(N >= r.cover ? `That is at most the ${percent(miss)} that you accept.`
        : r.cover === r.peak ? `No N misses more often than the ${percent(miss)} that you accept.`
        : `From N = ${whole(r.cover)} on it is at most ${percent(miss)}.`);
    }
    if (N === 1) parts.push("A group of one is never active.");
    else if (r.unsampled < 0) parts.push("Unsampled correct mass falls in expectation.");
    else if (r.unsampled > 0) parts.push("Unsampled correct mass rises in expectation.");
    if (gamma > 0 && N > 1) parts.push(`The focal weight leaves ${percent(r.kept)} of this prompt's update.`);
    return parts.join(" ");
  }

  function readout(r) {
    const show = {
      active: percent(r.active), tail: percent(r.tail), given: Number.isNaN(r.given) ? "never active" : percent(r.given), tau: plain(r.tau),
      peak: r.peak === null ? "none" : whole(r.peak), zone: r.zone === null ? "none" : `${whole(r.zone[0])} to ${whole(r.zone[1])}`,
      cover: whole(r.cover), weight: plain(r.weight), up: plain(r.up), down: plain(r.down), kept: Number.isNaN(r.kept) ? "no update" : percent(r.kept),
      rise: plain(r.rise), unsampled: plain(r.unsampled),
    };
    for (const [name, text] of Object.entries(show)) byId(`read-${name}`).textContent = text;
  }

  // Group sizes for the curves: from 2 to well past the safe one, in quarter octaves, whole.
  function sizes(r) {
    const octaves = Math.min(24, Math.max(10, Math.ceil(Math.log2(4 * Math.max(r.cover, r.peak ?? 1, state.N)))));
    return span(4 * octaves + 1, (i) => Math.round(2 ** (i / 4)));
  }

  function logTicks(last, place) {
    const octaves = Math.log2(last);
    const step = Math.ceil(octaves / Math.max(3, Math.floor(place.clientWidth / 60)));
    return span(Math.floor(octaves / step) + 1, (i) => 2 ** (i * step)).map((n) => [n, short(n)]);
  }

  const pickSize = (value) => change({ N: Math.min(2 ** 20, Math.max(1, Math.round(value))) });
  const sizeAxis = (ns, place) => ({ log: true, xLabel: "group size N", xRange: [1, ns.at(-1)], xTicks: logTicks(ns.at(-1), place), onPick: pickSize });

  function drawMiss(ns, r) {
    const { N, mu } = state;
    chart.draw(byId("miss-chart"), {
      ...sizeAxis(ns, byId("miss-chart")), yRange: [0, 1], yTicks: [0, 0.25, 0.5, 0.75, 1].map((v) => [v, `${100 * v} %`]),
      label: `Tail miss and activity against N; at N = ${N} ${percent(r.tail)} and ${percent(r.active)}`, band: r.zone,
      lines: [
        { kind: "second", points: ns.map((n) => [n, laws.activeProbability(n, mu)]) },
        { kind: "first", points: ns.map((n) => [n, laws.tailMissProbability(n, mu, r.tau)]) },
      ],
      marks: [{ kind: "cover", x: r.cover }, { kind: "", x: N }],
      dots: [{ kind: "second", x: N, y: r.active }, { kind: "first", x: N, y: r.tail }],
    });
  }

  const drift = (ns, tau, gamma) => ns.map((n) => {
    const [rise, unsampled] = laws.expectedMassChanges(n, state.mu, tau, gamma, WRONG_ANSWERS);
    return { n, rise, unsampled };
  });

  function drawDrift(ns, r, rows) {
    const plainRows = state.gamma === 0 ? rows : drift(ns, r.tau, 0);
    const values = [...rows, ...plainRows].map((row) => row.unsampled);
    const reach = Math.max(1e-12, ...values.map(Math.abs));
    const low = Math.min(0, ...values) - 0.06 * reach, high = Math.max(0, ...values) + 0.06 * reach;
    const tick = (v) => (Math.abs(v) < 1e-9 * reach ? "0" : reach < 2e-3 ? v.toExponential(0) : String(Number(v.toPrecision(2))));
    chart.draw(byId("drift-chart"), {
      ...sizeAxis(ns, byId("drift-chart")), yRange: [low, high], yTicks: chart.ticks(low, high).map((v) => [v, tick(v)]),
      label: `Expected change of unsampled correct mass in one update: ${plain(r.unsampled)} at N = ${state.N}`, band: r.zone,
      lines: [
        { kind: "first faint", points: plainRows.map((row) => [row.n, row.unsampled]) },
        { kind: "first", points: rows.map((row) => [row.n, row.unsampled]) },
      ],
      marks: [{ kind: "", x: state.N }],
      dots: [{ kind: "first", x: state.N, y: r.unsampled }],
    });
  }

  function drawFocal(r) {
    const { mu, gamma } = state;
    const at = Array.from({ length: 199 }, (_, i) => (i + 1) / 200);
    const curve = (exponent, side) => at.map((m) => [m, laws.advantageMagnitudes(m, exponent)[side]]);
    chart.draw(byId("focal-chart"), {
      xLabel: "success probability mu", xRange: [0, 1], yRange: [0, 3], log: false, band: null, onPick: (m) => change({ mu: Number(Math.min(0.999, Math.max(0.001, m)).toPrecision(3)) }),
      xTicks: [0, 0.2, 0.4, 0.6, 0.8, 1].map((v) => [v, String(v)]), yTicks: [0, 1, 2, 3].map((v) => [v, String(v)]),
      label: `At mu = ${mu} and gamma = ${gamma}: weighted advantage ${plain(r.up)} of a correct and -${plain(r.down)} of a wrong rollout, focal weight ${plain(r.weight)}`,
      lines: [
        { kind: "first faint", points: curve(0, 0) }, { kind: "second faint", points: curve(0, 1) },
        { kind: "first", points: curve(gamma, 0) }, { kind: "second", points: curve(gamma, 1) },
        { kind: "third", points: at.map((m) => [m, laws.focalWeight(m, gamma)]) },
      ],
      marks: [{ kind: "", x: mu }],
      dots: [{ kind: "first", x: mu, y: r.up }, { kind: "second", x: mu, y: r.down }],
    });
  }

  function table(rows) {
    const { mu, rho } = state;
    const cells = (row) => [whole(row.n), laws.activeProbability(row.n, mu), laws.tailMissProbability(row.n, mu, rho * mu),
      laws.conditionalTailMissProbability(row.n, mu, rho * mu), row.rise, row.unsampled].map((v) => (typeof v === "string" ? v : Number.isNaN(v) ? "-" : plain(v)));
    const line = (row) => {
      const made = document.createElement("tr");
      for (const text of cells(row)) made.insertCell().textContent = text;
      return made;
    };
    byId("table").replaceChildren(...rows.filter((row) => Number.isInteger(Math.log2(row.n))).map(line));
  }

  function show() {
    const r = results(state);
    const ns = sizes(r);
    const rows = drift(ns, r.tau, state.gamma);
    const said = sentence(state, r);
    if (byId("sentence").textContent !== said) byId("sentence").textContent = said;
    readout(r);
    byId("strip").textContent = `tail miss ${percent(r.tail)} · safe from N = ${whole(r.cover)} · update left ${Number.isNaN(r.kept) ? "none" : percent(r.kept)}`;
    drawMiss(ns, r);
    drawDrift(ns, r, rows);
    drawFocal(r);
    table(rows);
  }

  function fill(name, typing) {
    const { stops } = CONTROLS[name];
    const slider = byId(`${name}-slider`);
    const distance = (stop) => Math.abs(Math.log((stop + 1e-9) / (state[name] + 1e-9)));
    slider.value = stops.reduce((best, stop, index) => (distance(stop) < distance(stops[best]) ? index : best), 0);
    slider.setAttribute("aria-valuetext", String(state[name]));
    const field = byId(`${name}-value`);
    if (field !== typing) field.value = String(state[name]);
    field.removeAttribute("aria-invalid");
  }

  function change(settings, typing = null) {
    Object.assign(state, settings);
    for (const name of NAMES) fill(name, typing);
    byId("complaint").textContent = "";
    history.replaceState(null, "", `#${new URLSearchParams(state)}`);
    show();
  }

  const complaint = (name, text) => `${SYMBOLS[name]} must be ${CONTROLS[name].rule}, got ${text || "nothing"}.`;
  const read = (text) => (/^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i.test(text) ? Number(text) : NaN);

  function typed(field) {
    const name = field.dataset.name;
    const value = read(field.value);
    if (CONTROLS[name].holds(value)) return change({ [name]: value }, field);
    field.setAttribute("aria-invalid", "true");
    byId("complaint").textContent = complaint(name, field.value.trim());
  }

  // Settings of an address; what is wrong in it is said, and the present value stands.
  function load(hash) {
    const given = new URLSearchParams(hash.replace(/^#/, ""));
    const accepted = {};
    const complaints = [];
    for (const name of NAMES.filter((each) => given.has(each))) {
      const value = read(given.get(name));
      if (CONTROLS[name].holds(value)) accepted[name] = value;
      else complaints.push(complaint(name, given.get(name)));
    }
    change(accepted);
    byId("complaint").textContent = complaints.join(" ");
  }

  function start() {
    for (const name of NAMES) {
      const slider = byId(`${name}-slider`);
      Object.assign(slider, { min: 0, max: CONTROLS[name].stops.length - 1, step: 1 });
      slider.addEventListener("input", () => change({ [name]: CONTROLS[name].stops[slider.valueAsNumber] }));
      const field = byId(`${name}-value`);
      field.addEventListener("input", () => typed(field));
      field.addEventListener("blur", () => change({}));
    }
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
    for (const button of document.querySelectorAll("[data-state]")) button.addEventListener("click", () => load(button.dataset.state));
    addEventListener("hashchange", () => load(location.hash));
    addEventListener("resize", show);
    load(location.hash);
  }

  return { start, results, state: () => ({ ...state }), change, WRONG_ANSWERS };
})();

globalThis.fgrpo = { ...laws, page };
page.start();
