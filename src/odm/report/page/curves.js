// Precision and recall as curves, and how scores are spread.

function curves({ X, R, st, redraw, counts }) {
  const holder = h("div", { class: "grid3" });
  section("curves", t("curves.title"), t("curves.hint"), holder);
  const low = R.levels[0];
  const span = R.levels[R.levels.length - 1] - low || 1;
  const place = (level) => (R.levels[level] - low) / span;
  const placeOf = (score) => Math.max(0, Math.min(1, (score - low) / span));
  const scoreAxis = {
    title: t("axis.score"),
    ticks: low === 0 && span === 1 ? QUARTERS : QUARTERS.map(([v]) => [v, compactNumber(low + v * span)]),
  };
  const chosen = R.analysis.thresholds?.classes || {};
  let drawnFor = null;
  let moving = null;

  function drag(svg) {
    const set = (event) => {
      const room = svg.getBoundingClientRect();
      const x =
        (((event.clientX - room.left) / room.width) * PLOT.width - PLOT.left) /
        (PLOT.width - PLOT.left - PLOT.right);
      const away = R.levels.map((_, level) => Math.abs(place(level) - x));
      st.level = away.indexOf(Math.min(...away));
      redraw();
    };
    svg.classList.add("drag-x");
    svg.addEventListener("pointerdown", (event) => {
      svg.setPointerCapture(event.pointerId);
      set(event);
    });
    svg.addEventListener("pointermove", (event) => {
      if (event.buttons && svg.hasPointerCapture(event.pointerId)) set(event);
    });
    return svg;
  }

  // A mark where the chosen threshold of a class lies.
  function thresholdMark(name) {
    const own = chosen[name];
    if (!own || !isNumber(own.precision) || !isNumber(own.recall)) return null;
    const [x, y] = [plotX(own.recall), plotY(own.precision)];
    const text = t("threshold-of", { name: short(name, 30), score: own.score.toPrecision(3) });
    return s("path", { class: "threshold", d: `M${x - 5} ${y}l5 -6l5 6l-5 6z`, "data-tip": text });
  }

  // Those of many classes follow when the slider rests, as a long table does; until then the lines from before stand.
  let faint = null;
  let later = 0;
  function faintLines(drawn, tips) {
    const make = () =>
      drawn.map((i) => {
        const d = linePath(...counts.curve(i));
        const wide = s("path", { class: "near", d, "data-tip": tips[i], on: { click: () => choose(i) } });
        return s("g", { class: "of-class" }, s("path", { class: "faint", d }), wide);
      });
    clearTimeout(later);
    if (faint && drawn.length > LONG_TABLE) {
      const own = faint;
      later = setTimeout(() => own.replaceChildren(...make()), LATER_TABLE);
    } else faint = s("g", {}, make());
    return faint;
  }

  function recallPlot(all) {
    const name = st.category >= 0 ? short(R.rows[st.category].class, 24) : t("all-classes");
    const axes = [{ title: t("key.recall") }, { title: t("key.precision") }];
    const svg = plotFrame(t("recall-plot.of", { name }), ...axes);
    const drawn = R.rows.map((_, i) => i).filter((i) => counts.curve(i) && i !== st.category);
    svg.style.setProperty("--faint", Math.max(0.03, Math.min(0.28, 12 / Math.max(1, drawn.length))));
    const tips = R.rows.map((row) => short(row.class) + (isNumber(row.ap) ? ` · AP ${percent(row.ap)}` : ""));
    svg.append(faintLines(drawn, tips));
    const own =
      st.category >= 0 ? counts.curve(st.category) : [all.map((x) => x.recall), all.map((x) => x.precision)];
    if (own) svg.append(s("path", { class: "strong", d: linePath(...own) }));
    const marked = st.category >= 0 ? [R.rows[st.category].class] : Object.keys(chosen).slice(0, MARKED);
    svg.append(...marked.map(thresholdMark).filter(Boolean));
    const dot = s("circle", { r: 5, class: "dot" });
    svg.append(dot);
    const hint = t(marked.some((one) => chosen[one]) ? "recall-plot.key-thresholds" : "recall-plot.key");
    const key = h(
      "div",
      { class: "key" },
      h("span", {}, h("i", { css: { "border-color": "var(--ink)" } }), h("bdi", {}, name)),
    );
    const card = plotCard(t("recall-plot"), key, walked(svg, drawn, tips, hint));
    return [card, dot];
  }

  const choose = (i) => {
    st.category = i;
    st.cell = null;
    redraw();
  };

  // The lines are one stop of the Tab key; arrows go from line to line, Enter chooses the class.
  function walked(svg, drawn, tips, hint) {
    let at = -1;
    const told = h("p", { class: "cap", role: "status" }, hint);
    const go = (event) => {
      const lines = [...svg.querySelectorAll(".of-class")];
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      if (event.key === "Enter" && at >= 0) choose(drawn[at]);
      if (!step || !lines.length) return;
      event.preventDefault();
      lines[at]?.classList.remove("at");
      at = (at + step + lines.length) % lines.length;
      lines[at].classList.add("at");
      told.textContent = tips[drawn[at]];
    };
    const leave = () => {
      svg.querySelector(".of-class.at")?.classList.remove("at");
      at = -1;
      told.textContent = hint;
    };
    const about = { role: "group", tabindex: drawn.length ? "0" : null, "aria-label": t("recall-plot.walk") };
    return h("div", { ...about, on: { keydown: go, focusout: leave } }, svg, told);
  }

  function scorePlot(all) {
    const svg = drag(plotFrame(t("score-plot.label"), scoreAxis, { title: t("axis.share") }));
    const xs = all.map((_, level) => place(level));
    for (const [key, color] of [
      ["precision", "var(--tp)"],
      ["recall", "var(--fn)"],
      ["f1", "var(--ink)"],
    ]) {
      const d = linePath(
        xs,
        all.map((x) => x[key]),
      );
      svg.append(s("path", { class: "ln", stroke: color, d }));
    }
    const own = st.category >= 0 ? chosen[R.rows[st.category].class] : null;
    if (own && isNumber(own.score)) {
      const x = plotX(placeOf(own.score));
      const text = t("threshold-of", {
        name: short(R.rows[st.category].class, 30),
        score: own.score.toPrecision(3),
      });
      svg.append(s("path", { class: "threshold", d: `M${x - 5} ${plotY(1)}h10l-5 9z`, "data-tip": text }));
    }
    const line = s("line", { class: "now", y1: plotY(0), y2: plotY(1) });
    svg.append(line);
    const key = legend(
      ["var(--tp)", t("key.precision")],
      ["var(--fn)", t("key.recall")],
      ["var(--ink)", t("key.f1")],
    );
    return [plotCard(t("score-plot"), key, svg), line];
  }

  function histogram() {
    const steps = Math.round(span / Math.max(...R.levels.slice(1).map((level, i) => level - R.levels[i])));
    const bins = Math.ceil(steps / Math.ceil(steps / BINS)) || 1; // each of as many levels
    const right = new Float64Array(bins);
    const wrong = new Float64Array(bins);
    for (let level = 0; level < counts.levels; level++) {
      const bin = Math.min(bins - 1, Math.floor(place(level) * bins + 1e-9));
      right[bin] += counts.exactly(level, st.category, 0);
      for (let reason = 1; reason <= counts.reasons; reason++)
        wrong[bin] += counts.exactly(level, st.category, reason);
    }
    const top = Math.max(1, ...right.map((v, i) => v + wrong[i]));
    const yAxis = { title: t("axis.detections"), ticks: countTicks(top) };
    const svg = drag(plotFrame(t("histogram.label"), scoreAxis, yAxis));
    const width = (plotX(1) - plotX(0)) / bins;
    const column = (i, from, to, fill) =>
      s("rect", {
        x: plotX(i / bins) + 0.5,
        width: width - 1,
        y: plotY(to / top),
        height: Math.max(0, plotY(from / top) - plotY(to / top)),
        fill,
      });
    right.forEach((v, i) =>
      svg.append(column(i, 0, wrong[i], "var(--fp)"), column(i, wrong[i], wrong[i] + v, "var(--tp)")),
    );
    const line = s("line", { class: "now", y1: plotY(0), y2: plotY(1) });
    svg.append(line);
    const key = legend(["var(--tp)", t("key.true")], ["var(--fp)", t("key.false")]);
    return [plotCard(t("histogram"), key, svg), line];
  }

  // Over the logarithm of false positives per image; dotted where the rate of a protocol is read.
  function missPlot() {
    const low = Math.min(...R.misses.map((one) => one.points[0][0]));
    const high = Math.max(0.3, ...R.misses.map((one) => one.points[0][one.points[0].length - 1]));
    const at = (v) => (v - low) / (high - low);
    const decades = [-3, -2, -1, 0, 1, 2, 3].filter((v) => v >= low && v <= high);
    const ticks = decades.map((v) => [at(v), String(10 ** v)]);
    const svg = plotFrame(t("miss-plot"), { title: t("axis.fppi"), ticks }, { title: t("axis.miss") });
    const name = (one) => short(R.misses.every((o) => o.class === one.class) && one.setUp ? one.setUp : one.class, 24);
    const colors = ["var(--ink)", "var(--tp)", "var(--fp)", "var(--fn)"];
    R.misses.forEach((one, i) => {
      const [xs, ys] = [[], []];
      one.points[0].forEach((x, k) => {
        if (k) {
          xs.push(at(x));
          ys.push(one.points[1][k - 1]);
        }
        xs.push(at(x));
        ys.push(one.points[1][k]);
      });
      const tip = `${name(one)} · MR ${isNumber(one.rate) ? percent(one.rate) : "-"}`;
      svg.append(s("path", { class: "ln", stroke: colors[i % 4], d: linePath(xs, ys), "data-tip": tip }));
    });
    const items = R.misses.slice(0, 4).map((one, i) => [
      colors[i],
      `${name(one)} ${isNumber(one.rate) ? percent(one.rate) : "-"}`,
    ]);
    return plotCard(t("miss-plot"), legend(...items), svg, t("miss-plot.key"));
  }

  return () => {
    const wanted = `${st.category} ${st.iou}`;
    if (drawnFor !== wanted) {
      drawnFor = wanted;
      const all = R.levels.map((_, level) => counts.counts(level, st.category));
      const made = R.curves.some((curve) => curve) ? recallPlot(all) : [null, null];
      const [second, n2] = scorePlot(all);
      const [third, n3] = histogram();
      const fourth = R.misses.length ? missPlot() : null;
      holder.replaceChildren(...[made[0], second, third, fourth].filter(Boolean));
      moving = { dot: made[1], lines: [n2, n3], all };
    }
    const x = plotX(place(st.level));
    for (const line of moving.lines) {
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
    }
    if (!moving.dot) return;
    const own = moving.all[st.level];
    if (isNumber(own.recall) && isNumber(own.precision)) {
      moving.dot.setAttribute("cx", plotX(own.recall));
      moving.dot.setAttribute("cy", plotY(own.precision));
      moving.dot.removeAttribute("display");
    } else moving.dot.setAttribute("display", "none");
  };
}

const compactNumber = (v) => String(Number(v.toPrecision(3)));
const BINS = 50; // of the scores, at most
const MARKED = 30; // thresholds that are drawn at once
