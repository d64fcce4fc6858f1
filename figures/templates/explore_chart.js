// A line chart as SVG, drawn at the width of its place so that its text is never scaled. No dependency, no colour: classes.
const chart = (() => {
  const NS = "http://www.w3.org/2000/svg";
  const MARGIN = { left: 54, right: 12, top: 10, bottom: 40 };

  function element(name, attributes, text) {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // A path through the finite points; it breaks where a value is not finite.
  function path(points, x, y) {
    let drawn = "";
    let open = false;
    for (const [a, b] of points) {
      if (Number.isFinite(b)) drawn += `${open ? "L" : "M"}${x(a).toFixed(2)} ${y(b).toFixed(2)}`;
      open = Number.isFinite(b);
    }
    return drawn;
  }

  function axes(svg, spec, box, x, y) {
    const { width, height } = box;
    for (const [value, label] of spec.xTicks) {
      svg.append(element("line", { class: "grid", x1: x(value), x2: x(value), y1: MARGIN.top, y2: height - MARGIN.bottom }));
      svg.append(element("text", { class: "tick", x: x(value), y: height - MARGIN.bottom + 16, "text-anchor": "middle" }, label));
    }
    for (const [value, label] of spec.yTicks) {
      const kind = value === 0 ? "grid zero" : "grid";
      svg.append(element("line", { class: kind, x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }));
      svg.append(element("text", { class: "tick", x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }, label));
    }
    const middle = (MARGIN.left + width - MARGIN.right) / 2;
    svg.append(element("text", { class: "axis", x: middle, y: height - 4, "text-anchor": "middle" }, spec.xLabel));
  }

  // spec: {label, xLabel, xRange, yRange, log, xTicks, yTicks, lines: [{kind, points}], band: [from, to] | null,
  //        marks: [{kind, x}], dots: [{kind, x, y}], onPick(x)}
  function draw(place, spec) {
    const width = Math.max(260, Math.floor(place.clientWidth));
    const height = Math.round(Math.min(340, Math.max(230, width * 0.46)));
    const scale = spec.log ? Math.log : (value) => value;
    const [x0, x1] = spec.xRange.map(scale);
    const [y0, y1] = spec.yRange;
    const inner = width - MARGIN.left - MARGIN.right;
    const x = (value) => MARGIN.left + ((scale(value) - x0) / (x1 - x0)) * inner;
    const y = (value) => height - MARGIN.bottom - ((value - y0) / (y1 - y0)) * (height - MARGIN.top - MARGIN.bottom);
    const inside = (value) => value >= spec.xRange[0] && value <= spec.xRange[1];
    const clamp = (value) => Math.min(spec.xRange[1], Math.max(spec.xRange[0], value));

    const svg = element("svg", { role: "img", "aria-label": spec.label, width, height, viewBox: `0 0 ${width} ${height}` });
    const clip = element("clipPath", { id: `${place.id}-clip` });
    const area = { x: MARGIN.left, y: MARGIN.top, width: inner, height: height - MARGIN.top - MARGIN.bottom };
    clip.append(element("rect", area));
    svg.append(clip);
    if (spec.band) {
      const [from, to] = spec.band.map((value) => x(clamp(value)));
      svg.append(element("rect", { ...area, class: "band", x: from, width: Math.max(1, to - from) }));
    }
    axes(svg, spec, { width, height }, x, y);
    const drawing = element("g", { "clip-path": `url(#${place.id}-clip)` });
    for (const line of spec.lines) drawing.append(element("path", { class: `line ${line.kind}`, d: path(line.points, x, y) }));
    svg.append(drawing);
    for (const mark of spec.marks.filter((each) => inside(each.x))) {
      svg.append(element("line", { class: `mark ${mark.kind}`, x1: x(mark.x), x2: x(mark.x), y1: MARGIN.top, y2: height - MARGIN.bottom }));
    }
    for (const dot of spec.dots.filter((each) => inside(each.x) && each.y >= y0 && each.y <= y1)) {
      svg.append(element("circle", { class: `dot ${dot.kind}`, cx: x(dot.x), cy: y(dot.y), r: 5 }));
    }
    svg.addEventListener("click", (event) => {
      const share = (event.clientX - svg.getBoundingClientRect().left - MARGIN.left) / inner;
      const value = x0 + Math.min(1, Math.max(0, share)) * (x1 - x0);
      spec.onPick(spec.log ? Math.exp(value) : value);
    });
    place.replaceChildren(svg);
  }

  // Four to six round numbers that span [low, high]
  function ticks(low, high) {
    const raw = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
    return found;
  }

  return { draw, ticks };
})();
