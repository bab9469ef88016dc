// What a report of an evaluation counts at each position of the score slider, and what its boxes are there.

const FEW_CLASSES = 15;
const IN_MATRIX = 13;
const WHOLE_MATRIX = 16;
const REDRAW_GALLERY = 60;

// A table of one result at any IoU: that of the protocol with all changes up to the position asked for. It is kept, so
// that a step of the slider costs the changes of that step.
function tableOf(R, name) {
  const base = R[name];
  const table = new Int32Array(base.shape.reduce((a, b) => a * b, 1));
  const add = (part, sign) => {
    const [places, n] = sparse(part);
    for (let i = 0; i < places.length; i++) table[places[i]] += sign * n[i];
  };
  add(base, 1);
  let now = R.ious?.own;
  return (at) => {
    while (R.ious && now !== at) {
      const next = now + Math.sign(at - now);
      const away = Math.abs(next - R.ious.own) > Math.abs(now - R.ious.own);
      add(R.ious[name][away ? next : now], away ? 1 : -1);
      now = next;
    }
    return table;
  };
}

// The numbers of one result at any position of the two sliders; `st.iou` is the position of that of IoU.
function makeCounts(X, R, st) {
  const [classes, kinds, levels] = R.outcomes.shape;
  const reasons = kinds - 2;
  const steps = levels + 1;
  const objects = R.rows.map((row) => row.gt);
  objects.push(objects.reduce((a, b) => a + b, 0));
  const row = (category, kind) => ((category < 0 ? classes : category) * kinds + kind) * steps;
  const tableAt = tableOf(R, "outcomes");
  let exact = null;
  let sums = null; // by class, the last being all of them; kind; level: so many have that score or a higher one
  let at = null;

  function follow() {
    if (exact && at === st.iou) return;
    at = st.iou;
    exact = new Int32Array((classes + 1) * kinds * steps);
    const table = tableAt(at);
    for (let i = 0; i < classes * kinds; i++) {
      const own = exact.subarray(i * steps, i * steps + levels);
      own.set(table.subarray(i * levels, (i + 1) * levels));
      const all = (classes * kinds + (i % kinds)) * steps;
      for (let level = 0; level < levels; level++) exact[all + level] += own[level];
    }
    sums = exact.slice();
    for (let i = 0; i < (classes + 1) * kinds; i++) {
      for (let level = levels - 1; level >= 0; level--)
        sums[i * steps + level] += sums[i * steps + level + 1];
    }
  }

  function counts(level, category = -1) {
    follow();
    const tp = sums[row(category, 0) + level];
    const gt = objects[category < 0 ? classes : category];
    const why = [];
    let fp = 0;
    for (let reason = 0; reason < reasons; reason++) {
      why.push(sums[row(category, 1 + reason) + level]);
      fp += why[reason];
    }
    const fn = gt - tp;
    const share = (n, of) => (of > 0 ? n / of : null); // as in the JSON, only a share of nothing is undefined
    const [precision, recall, f1] = [share(tp, tp + fp), share(tp, gt), share(2 * tp, 2 * tp + fp + fn)];
    return { tp, fp, fn, gt, why, precision, recall, f1 };
  }

  function exactly(level, category, kind) {
    follow();
    return exact[row(category, kind) + level];
  }

  const own = () => !R.ious || st.iou === R.ious.own;

  // Recall and precision of a class: of the protocol's IoU at every detection, of others at every score.
  function curve(category) {
    if (own() || !R.curves[category]) return R.curves[category];
    follow();
    const gt = objects[category];
    const made = [[], []];
    let before = -1;
    for (let level = levels - 1; gt && level >= 0; level--) {
      const tp = sums[row(category, 0) + level];
      let all = tp;
      for (let reason = 0; reason < reasons; reason++) all += sums[row(category, 1 + reason) + level];
      if (!tp || all === before) continue; // there is no point yet, or it is that of the level above
      before = all;
      made[0].push(tp / gt);
      made[1].push(tp / all);
    }
    return made;
  }

  const apOf = (category) => (R.ious ? R.ious.ap[st.iou][category] : null);
  const wrongImages = (level) => (R.ious ? R.ious.wrong[st.iou] : R.wrongImages)[level];
  return { counts, exactly, curve, apOf, wrongImages, own, levels, reasons };
}

function makeSizes(X, R, st) {
  const [, groups, steps] = R.objects.shape;
  const size = groups * steps;
  const tableAt = tableOf(R, "objects");
  const totals = new Float64Array(size);
  let table = null;
  let at = null;
  function follow() {
    if (table && at === st.iou) return;
    table = tableAt((at = st.iou));
    totals.fill(0);
    for (let from = 0; from < table.length; from += size)
      for (let i = 0; i < size; i++) totals[i] += table[from + i];
  }
  return (level, category) => {
    follow();
    const own = category < 0 ? totals : table.subarray(category * size, (category + 1) * size);
    const found = new Float64Array(groups);
    const all = new Float64Array(groups);
    for (let group = 0; group < groups; group++) {
      for (let step = 0; step < steps; step++) {
        const n = own[group * steps + step];
        all[group] += n;
        if (step > level) found[group] += n;
      }
    }
    return [found, all];
  };
}

// The confusion matrix at every level: lists of [row, column, number].
function makeConfusion(R) {
  const [levels, side] = R.confusion.shape;
  const [at, n] = sparse(R.confusion);
  const lists = Array.from({ length: levels }, () => []);
  at.forEach((place, i) => {
    const cell = place % (side * side);
    lists[Math.floor(place / side / side)].push([Math.floor(cell / side), cell % side, n[i]]);
  });
  return (level) => lists[level];
}

const dotted = (...parts) => parts.filter(Boolean).join(" · ");
// An overlap with the name of what was measured, such as "mask IoU 0.71".
const overlap = (R, iou) => t("measure." + R.measure, { iou: iou.toFixed(2) });
const iouText = (R, iou) => (iou ? overlap(R, iou) : "");

function levelText(R, level) {
  const v = R.levels[level];
  const inHundredths = Number(v.toFixed(2)) === v && R.levels[0] === 0 && R.levels[R.levels.length - 1] === 1;
  return inHundredths ? v.toFixed(2) : String(Number(v.toPrecision(12)));
}

// To be read: that of the best F1 can have many digits.
function scoreText(R, level) {
  const text = levelText(R, level);
  return text.length > 6 ? String(Number(R.levels[level].toPrecision(4))) : text;
}

// ---- what the boxes of an image are at the score of now

function makeBoxes(X, R, st) {
  const { det, gt } = R;
  const of = { det: X.pictures.map(() => []), gt: X.pictures.map(() => []), pairs: X.pictures.map(() => []) };
  det.image.forEach((image, d) => of.det[image].push(d));
  gt.image.forEach((image, g) => of.gt[image].push(g));
  R.pairs[0].forEach((d, i) => of.pairs[det.image[d]].push([d, R.pairs[1][i]]));
  const last = X.kinds.length - 1;
  // What a detection is, and which detection finds an object, at the IoU of now.
  const kindOf = (d) => (R.ious ? Number(R.ious.kind[st.iou][d]) : det.kind[d]);
  const threshold = () => (R.ious ? R.ious.values[st.iou] : R.iou);
  let found = null;
  function byOf(g) {
    if (!R.ious) return gt.by[g];
    if (found?.at !== st.iou) {
      const [at, by] = R.ious.by[st.iou];
      found = { at: st.iou, by: new Map(at.map((one, i) => [one, by[i]])) };
    }
    return found.by.get(g) ?? gt.by[g];
  }
  // Why an object is never found.
  function missOf(g) {
    if (!R.ious) return X.misses[gt.miss[g]];
    if (gt.same[g] >= threshold()) return "assigned";
    if (gt.other[g] >= threshold()) return "class";
    return gt.same[g] >= X.background ? "localisation" : "undetected";
  }
  const className = (category) => R.rows[category].class;
  const corner = (side, i) => side.box.map((column) => column[i]);

  class Detection {
    constructor(d) {
      const kind = kindOf(d);
      this.d = d;
      this.key = "d" + d;
      this.reason = kind > 0 && kind < last ? kind - 1 : -1;
      this.kind = kind === 0 ? "TP" : kind === last ? "IG" : "FP";
      this.category = det.class[d];
      this.box = corner(det, d);
      this.score = det.score[d];
      Object.assign(this, shapeOf(det, d, X.skeletons[this.name]));
    }
    get name() {
      return className(this.category);
    }
    get label() {
      return short(this.name, 22);
    }
    get why() {
      const row = placeOf(det, this.d);
      const iou = overlap(R, det.iou[this.d]);
      if (this.kind === "TP") return dotted(t("found-iou", { iou }), row);
      if (this.kind === "IG") return dotted(t("ignored"), iouText(R, det.iou[this.d]), row);
      const reason = X.kinds[this.reason + 1];
      const other = reason === "class" && onto(this.d);
      return dotted(t("wrong." + (other ? "class-of" : reason), { iou, ...other }), row);
    }
  }

  // Where a box was read: "night.txt, line 8", "truth.json /annotations/12", or its row if it has no file.
  function placeOf(side, i) {
    const [file, pointer] = (side.files && side.files[side.files.length > 1 ? side.file[i] : 0]) || [];
    if (file === undefined) return t("row", { row: String(side.row[i]) });
    if (typeof pointer === "string") return `${file} ${pointer}/${side.line[i]}`;
    return side.line[i] ? t("place", { file, line: String(side.line[i]) }) : file;
  }

  class Truth {
    constructor(g) {
      const by = byOf(g);
      this.g = g;
      this.key = "g" + g;
      this.reason = -1;
      this.kind = !gt.counts[g] ? "IG" : by >= 0 && det.level[by] >= st.level ? "GT" : "FN";
      this.category = gt.class[g];
      this.box = corner(gt, g);
      this.score = null;
      Object.assign(this, shapeOf(gt, g, X.skeletons[this.name]));
    }
    get name() {
      return className(this.category);
    }
    get label() {
      const name = short(this.name, 22);
      return this.kind === "FN" ? t("missed-class", { name }) : name;
    }
    get why() {
      const row = placeOf(gt, this.g);
      if (this.kind === "IG") return dotted(t(R.perImage ? "once-per-image" : "ignored"), row);
      if (this.kind === "GT") return dotted(t("truth"), row);
      const by = byOf(this.g);
      if (by >= 0) return dotted(t("found-only-at", { score: det.score[by].toFixed(2) }), row);
      const miss = missOf(this.g);
      const iou = miss === "localisation" ? gt.same[this.g] : miss === "class" ? gt.other[this.g] : 0;
      return dotted(t("missed-because", { why: t("miss." + (miss || "never")) }), iouText(R, iou), row);
    }
  }

  function onto(d) {
    const [a0, b0, a1, b1] = corner(det, d);
    let best = ["", 0];
    for (const g of of.gt[det.image[d]]) {
      if (gt.class[g] === det.class[d] || !gt.paired[g]) continue;
      const [p0, q0, p1, q1] = corner(gt, g);
      const meet =
        Math.max(0, Math.min(a1, p1) - Math.max(a0, p0)) * Math.max(0, Math.min(b1, q1) - Math.max(b0, q0));
      const iou = meet / ((a1 - a0) * (b1 - b0) + (p1 - p0) * (q1 - q0) - meet);
      if (iou > best[1]) best = [short(className(gt.class[g]), 22), iou];
    }
    return best[0] ? { name: best[0], iou: overlap(R, best[1]) } : null;
  }

  function boxes(image) {
    const list = [];
    for (const d of of.det[image]) if (det.level[d] >= st.level) list.push(new Detection(d));
    for (const g of of.gt[image]) list.push(new Truth(g));
    return list;
  }

  // The boxes of an image that one cell of the confusion matrix counts.
  function inCell(image, cell) {
    const [row, column] = cell.split(",").map(Number);
    const none = R.rows.length;
    const taken = new Set();
    const found = new Set();
    for (const [d, g] of of.pairs[image]) {
      if (det.level[d] < st.level || taken.has("d" + d) || taken.has("g" + g)) continue;
      taken.add("d" + d).add("g" + g);
      if (gt.class[g] === row && det.class[d] === column) found.add("d" + d).add("g" + g);
    }
    if (row === none) {
      for (const d of of.det[image]) {
        const alone = det.level[d] >= st.level && !taken.has("d" + d) && !det.spared[d];
        if (alone && det.class[d] === column) found.add("d" + d);
      }
    }
    if (column === none) {
      for (const g of of.gt[image]) {
        if (gt.paired[g] && !taken.has("g" + g) && gt.class[g] === row) found.add("g" + g);
      }
    }
    return found;
  }
  return { boxes, inCell };
}
