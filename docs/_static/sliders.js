/* Sliders over a grid of answers, which the page has as JSON; see tilewright/site/sliders.py. */
(function () {
  "use strict";
  const data = document.getElementById("grid");
  if (data === null) { return; } // a page without sliders
  const grid = JSON.parse(data.textContent);
  const names = Object.keys(grid.axes);
  const sizes = names.map(function (name) { return grid.axes[name].length; });
  const at = function (chosen, series) {
    let place = 0;
    names.forEach(function (name, k) { place = place * sizes[k] + chosen[k]; });
    return grid.points[series][place];
  };
  const inputs = names.map(function (name) { return document.getElementById("axis-" + name); });
  const show = function () {
    const chosen = inputs.map(function (input) { return Number(input.value); });
    names.forEach(function (name, k) {
      document.getElementById("value-" + name).textContent = grid.axes[name][chosen[k]];
    });
    const along = names.indexOf(grid.along);
    let top = 0;
    const lines = grid.series.map(function (series, s) {
      const point = at(chosen, s);
      grid.columns.forEach(function (column, c) {
        document.getElementById("cell-" + s + "-" + c).textContent = point[c];
      });
      return grid.axes[grid.along].map(function (value, k) {
        const there = chosen.slice();
        there[along] = k;
        const height = at(there, s)[grid.drawn];
        top = Math.max(top, height);
        return height;
      });
    });
    const x = function (k) {
      return grid.left + k * (grid.width - grid.left - 8) / (sizes[along] - 1);
    };
    const y = function (height) {
      return grid.height - grid.bottom - height / top * (grid.height - grid.bottom - 12);
    };
    lines.forEach(function (heights, s) {
      const line = document.getElementById("line-" + s);
      line.setAttribute("points", heights.map(function (height, k) {
        return x(k).toFixed(1) + "," + y(height).toFixed(1);
      }).join(" "));
      const dot = document.getElementById("dot-" + s);
      dot.setAttribute("cx", x(chosen[along]));
      dot.setAttribute("cy", y(heights[chosen[along]]));
    });
    document.getElementById("top").textContent = top.toPrecision(3);
  };
  inputs.forEach(function (input) {
    input.disabled = false;
    input.addEventListener("input", show);
  });
  show();
})();
