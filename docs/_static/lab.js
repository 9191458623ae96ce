/* Labs: controls choose a point of a grid of answers; see tilewright/site/lab.py. */
document.querySelectorAll(".lab").forEach(function (root, which) {
  "use strict";
  const lab = JSON.parse(root.querySelector("script").textContent);
  const names = Object.keys(lab.axes), [first] = names;
  const grid = new Float32Array(Uint8Array.from(atob(lab.grid), (c) => c.charCodeAt(0)).buffer);
  const get = (name) => document.getElementById(`${root.id}-${name}`);
  const chosen = {}; // name of an axis: position of its value

  const batchOf = (at) => Number(lab.axes.batch[at.batch]);
  const answer = function (changes) {
    const at = { ...chosen, ...changes };
    const place = names.reduce((sum, name) => sum * lab.axes[name].length + at[name], 0);
    const row = grid.subarray(place * lab.columns.length);
    const found = Object.fromEntries(lab.columns.map((name, k) => [name, row[k]]));
    return { ...found, bound: lab.bounds[found.bound], rate: 1000 * batchOf(at) / found.ms };
  };
  const scheme = () => chosen.format * lab.axes.density.length + chosen.density;
  const short = function (value) { // three digits, without an exponent
    return value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
  };

  // Drawings of 400 x 260: a frame with ticks, titles of axes, and what is inside.
  const W = 400, H = 260, LEFT = 52, RIGHT = 12, TOP = 10, BOTTOM = 40;
  const scale = function (low, high, from, to, logarithmic) {
    const f = logarithmic ? Math.log : (v) => v;
    return (v) => from + (f(v) - f(low)) / (f(high) - f(low)) * (to - from);
  };
  const acrossScale = (low, high, log) => scale(low, high, LEFT, W - RIGHT, log);
  const upScale = (low, high, log) => scale(low, high, H - BOTTOM, TOP, log);
  const HALO = 'paint-order="stroke" stroke="var(--color-background-primary, white)" stroke-width="3"';
  const text = (x, y, words, more) => `<text x="${x}" y="${y}" ${more || ""}>${words}</text>`;
  const frame = function (x, y, xTicks, yTicks, xTitle, yTitle, inside) {
    const grey = 'stroke="var(--line)"';
    const lines = xTicks.map((v) => `<path ${grey} d="M${x(v)} ${TOP}V${H - BOTTOM}"/>`
      + text(x(v), H - BOTTOM + 14, v, 'text-anchor="middle"'));
    const rows = yTicks.map((v) => `<path ${grey} d="M${LEFT} ${y(v)}H${W - RIGHT}"/>`
      + text(LEFT - 5, y(v) + 4, v, 'text-anchor="end"'));
    return `<svg viewBox="0 0 ${W} ${H}" role="img" font-size="11" fill="currentColor">`
      + lines.join("") + rows.join("") + inside
      + text((LEFT + W - RIGHT) / 2, H - 8, xTitle, 'text-anchor="middle"')
      + text(12, (TOP + H - BOTTOM) / 2, yTitle,
        `text-anchor="middle" transform="rotate(-90 12 ${(TOP + H - BOTTOM) / 2})"`)
      + "</svg>";
  };
  const round = function (top) { // steps of 1, 2 or 5 in which at most five reach the top
    const power = 10 ** Math.floor(Math.log10(top / 5));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => top / s <= 5);
    return Array.from({ length: Math.floor(top / step) + 1 }, (_, k) => Number((k * step).toPrecision(3)));
  };
  const decades = function (low, high) {
    const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high));
    return Array.from({ length: last - first + 1 }, (_, k) => Number((10 ** (first + k)).toPrecision(1)));
  };

  const drawRates = function () {
    const shown = [...new Set([0, chosen[first], lab.machines.length - 1])];
    const rates = shown.map((k) => lab.axes.batch.map((_, batch) => answer({ [first]: k, batch }).rate));
    const top = Math.max(...rates.flat()) * 1.05;
    const batches = lab.axes.batch.map(Number);
    const x = acrossScale(batches[0], batches[batches.length - 1], true), y = upScale(0, top);
    const inside = shown.map(function (machine, k) {
      const colour = machine === chosen[first] ? 0 : machine === 0 ? 1 : 2;
      const points = rates[k].map((rate, b) => `${x(batches[b])},${y(rate)}`).join(" ");
      return `<g color="var(--series-${colour})" fill="currentColor">`
        + `<polyline points="${points}" fill="none" stroke="currentColor" stroke-width="2"/>`
        + `<circle cx="${x(batches[chosen.batch])}" cy="${y(rates[k][chosen.batch])}" r="4"/>`
        + text(W - RIGHT - 6, H - BOTTOM - 10 - 15 * (shown.length - 1 - k), lab.machines[machine].title,
          `${HALO} text-anchor="end"`) + "</g>";
    });
    get("rates").innerHTML = frame(x, y, batches, round(top), "batch, sequences", "tokens/s",
      inside.join(""));
  };

  // Both axes have one range for all settings, so that the roof moves and its points do.
  const ranges = function ({ engines, per_byte, rows }) {
    const passes = Math.ceil(Number(lab.axes.batch[lab.axes.batch.length - 1]) / rows);
    const range = (values) => [Math.min(...values) / 2, Math.max(...values) * passes * 2];
    return [range(per_byte), range(engines.flatMap((e) => e.per_vector).filter((v) => v !== null))];
  };
  const [xRange, yRange] = lab.roof ? ranges(lab.roof) : [];
  const roof = function ({ engines, schemes, per_byte, rows, fma, matrix }) {
    const engine = engines[chosen[first]];
    const vector = engine.vector, batch = batchOf(chosen);
    const memory = Number(lab.axes.bandwidth[chosen.bandwidth]) * 1e9;
    const uses = Math.ceil(batch / rows);
    const tera = fma * Math.min(batch, rows) / 1e12;
    const kernels = schemes.map(function (name, s) {
      const perByte = per_byte[s] * uses;
      const perVector = engine.per_vector[s]; // null: no limit
      const limits = [memory * perByte, perVector === null ? Infinity : vector * perVector * uses,
        matrix];
      const tiles = Math.min(...limits);
      return { name, x: perByte, y: perVector === null ? yRange[1] : perVector * uses,
        height: tera * tiles, bound: limits.indexOf(tiles) };
    });
    return { vector, memory, matrix, tera, kernels, here: kernels[scheme()] };
  };
  const drawRoof = function (found) {
    const x = acrossScale(...xRange, true), y = upScale(...yRange, true);
    const clampX = (v) => Math.min(Math.max(v, xRange[0]), xRange[1]);
    const clampY = (v) => Math.min(Math.max(v, yRange[0]), yRange[1]);
    const at = (a, b) => `${x(clampX(a)).toFixed(1)} ${y(clampY(b)).toFixed(1)}`;
    const corner = [found.matrix / found.memory, found.matrix / found.vector];
    const slope = found.memory / found.vector, [left, right] = xRange, [low, high] = yRange;
    // The border of memory and vector units is a straight line through its ends in the plot.
    const start = slope > 0 ? Math.max(left, low / slope) : left;
    const regions = [
      `M${at(left, high)}L${at(left, slope * left)}L${at(start, slope * start)}L${at(...corner)}L${at(corner[0], high)}Z`,
      `M${at(left, low)}L${at(left, slope * left)}L${at(start, slope * start)}L${at(...corner)}L${at(right, corner[1])}L${at(right, low)}Z`,
      `M${at(...corner)}L${at(right, corner[1])}L${at(right, high)}L${at(corner[0], high)}Z`,
    ].map((d, k) => `<path d="${d}" fill="var(--series-${k})" opacity=".16"/>`);
    const most = found.matrix * found.tera, heights = [];
    for (let k = 0.9; k > 2e-3; k /= 3) { heights.push(Number((most * k).toPrecision(1))); }
    const contours = heights.map(function (height) {
      const tiles = height / found.tera, a = tiles / found.memory, b = tiles / found.vector;
      if (a > right || b > high) { return ""; }
      return `<path d="M${at(a, high)}L${at(a, b)}L${at(right, b)}" fill="none" stroke="currentColor" opacity=".3"/>`
        + (a > left ? text(x(a) + 2, TOP + 10, short(height), 'font-size="9"') : "");
    });
    const dots = found.kernels.map((k) =>
      `<circle cx="${x(clampX(k.x))}" cy="${y(clampY(k.y))}" r="2.5" opacity=".5"><title>${k.name}: ${short(k.height)} TFMA/s</title></circle>`);
    const { here } = found, end = x(here.x) > W / 2;
    const mark = `<g fill="var(--series-${here.bound})"><circle cx="${x(here.x)}" cy="${y(here.y)}" r="6"/>`
      + text(x(here.x) + (end ? -9 : 9), Math.max(y(here.y) - 7, TOP + 24),
        `${here.name}: ${short(here.height)} TFMA/s`, `${HALO} font-weight="600" text-anchor="${end ? "end" : "start"}"`) + "</g>";
    const unit = lab.machines[chosen[first]].area ? "DECA" : "vector units";
    const legend = ["memory", unit, "matrix units"].map((words, k) =>
      text(LEFT + 6 + 105 * k, H - BOTTOM - 6, `bound: ${words}`, `fill="var(--series-${k})" font-size="10"`));
    get("roof").innerHTML = frame(x, y, decades(...xRange), decades(...yRange),
      "matrix operations per byte (contours: TFMA/s)", `matrix operations per ${unit === "DECA" ? "DECA cycle" : "vector op"}`,
      [...regions, ...contours, ...dots, mark, ...legend].join(""));
  };

  // Horizontal bars: each a title, a length in two parts, words after it, and whether it is chosen.
  const bars = function (rows, legend) {
    const top = Math.max(...rows.map((row) => row.end)), x = scale(0, top, 4, W - 62);
    const drawn = rows.map(function ({ title, middle, end, words, own }, k) {
      const y = 34 + 36 * k, weight = own ? 'font-weight="600"' : "";
      return text(4, y, title, weight)
        + `<rect x="4" y="${y + 4}" height="13" width="${x(middle) - 4}" fill="var(--series-0)"/>`
        + `<rect x="${x(middle)}" y="${y + 4}" height="13" width="${x(end) - x(middle)}" fill="var(--series-4)"/>`
        + text(x(end) + 4, y + 15, words, weight);
    });
    return `<svg viewBox="0 0 ${W} ${H}" role="img" font-size="11" fill="currentColor">`
      + legend + drawn.join("") + "</svg>";
  };
  const drawTime = function (answers) {
    const rows = answers.map((a, k) => ({ title: lab.machines[k].title, middle: a.products, end: a.ms,
      words: `${short(a.ms)} ms`, own: k === chosen[first] }));
    const rest = lab.units.length ? "attention" : "attention, cache, small kernels";
    get("time").innerHTML = bars(rows, text(4, 10, "products with weights", 'fill="var(--series-0)"')
      + text(140, 10, rest, 'fill="var(--series-4)"'));
  };
  const drawUnits = function (now) {
    get("units").innerHTML = bars(lab.units.map((unit) => ({ title: unit, middle: now[unit],
      end: now[unit], words: `${(100 * now[unit]).toFixed(0)}%`, own: unit === now.bound })), "");
  };

  const show = function () {
    for (const name of names) {
      get(name).value = chosen[name];
      const shown = get(name + "-value");
      if (shown) { shown.textContent = lab.axes[name][chosen[name]] + lab.labels[name]; }
    }
    const answers = lab.machines.map((_, k) => answer({ [first]: k }));
    answers.forEach(function (a, k) {
      const area = lab.machines[k].area ? lab.machines[k].area.toFixed(2) : "\u2013";
      [a.ms.toFixed(2), a.rate.toFixed(2), short(a.joules), a.bound, area].forEach(function (words, c) {
        get(k + "-" + c).textContent = words;
      });
      get("row-" + k).style.fontWeight = k === chosen[first] ? "700" : "";
    });
    const now = answers[chosen[first]], { area, options } = lab.machines[chosen[first]];
    const found = lab.roof && roof(lab.roof);
    const most = now.gigabytes > lab.capacity ? `, of ${lab.capacity} GB: does not fit` : "";
    get("figures").innerHTML = [
      `<b>${now.rate.toFixed(2)}</b> tokens/s`, `<b>${now.ms.toFixed(2)} ms</b> a step`,
      `bound by <b>${now.bound}</b>`, `<b>${short(now.joules)} J</b> a token`,
      `<b>${short(now.gigabytes)} GB</b> weights and cache${most}`,
      ...(area ? [`<b>${area.toFixed(2)} mm²</b>${found ? " of DECAs" : ""}`] : []),
      ...(found ? [`<b>${short(found.here.height)} TFMA/s</b> roof of the products`]
        : [`memory port loads <b>${(100 * now.load).toFixed(0)}%</b> of the time`]),
    ].map((words) => `<span>${words}</span>`).join(" ");
    const value = (name) => lab.axes[name][chosen[name]];
    get("command").textContent = `tilewright llm ${value("model")} ${options}`
      + ` --set bandwidth=${value("bandwidth")}GB/s`
      + (found ? ` --scheme ${lab.roof.schemes[scheme()]}` : "")
      + ` --context ${value("context")} --batch ${value("batch")}`;
    drawRates();
    if (found) { drawRoof(found); } else { drawUnits(now); }
    drawTime(answers);
  };

  const read = function () { // settings of a link to this lab; those it leaves out stay
    const link = new URLSearchParams(location.hash.slice(1));
    const here = link.has("lab") ? link.get("lab") === root.id : which === 0;
    for (const name of here ? names : []) {
      const place = lab.axes[name].indexOf(link.get(name));
      if (place >= 0) { chosen[name] = place; }
    }
    show();
    if (here && which > 0) { root.scrollIntoView(); }
  };
  for (const name of names) {
    chosen[name] = lab.axes[name].indexOf(lab.start[name]);
    get(name).disabled = false;
    get(name).addEventListener("input", function () {
      chosen[name] = Number(get(name).value);
      show();
    });
    get(name).addEventListener("change", function () { // at the end of a movement
      const settings = names.map((n) => [n, lab.axes[n][chosen[n]]]);
      const link = new URLSearchParams([...(which > 0 ? [["lab", root.id]] : []), ...settings]);
      history.replaceState(null, "", "#" + link);
    });
  }
  window.addEventListener("hashchange", read);
  read();
});
