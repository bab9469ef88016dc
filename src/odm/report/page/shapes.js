// Outlines, oriented boxes, masks and keypoints, drawn in place of boxes.

const drawing = { shapes: true, boxes: false }; // what the keys 5 and 6 switch

// The shape of box i, from columns of a page; `skeleton` are pairs of its keypoints.
const shapeOf = (columns, i, skeleton) => ({
  shape: columns.shape?.[i] || null,
  points: columns.points?.[i]?.length ? columns.points[i] : null,
  skeleton: skeleton || [],
});

const hasShapes = (...sides) => sides.some((columns) => columns.shape || columns.points);

// Outlines are differences in tenths of a pixel.
function outlinePath(rings) {
  return rings
    .map((ring) => {
      let [x, y] = [0, 0];
      let path = "";
      for (let i = 0; i < ring.length; i += 2) {
        x += ring[i];
        y += ring[i + 1];
        path += `${i ? "L" : "M"}${x / 10} ${y / 10}`;
      }
      return path + "Z";
    })
    .join("");
}

// The run lengths in COCO's compressed text: five bits a sign, and from the fourth number on differences.
function runLengths(text) {
  const counts = [];
  let at = 0;
  while (at < text.length) {
    let [value, shift, code] = [0, 0, 0];
    do {
      code = text.charCodeAt(at++) - 48;
      value |= (code & 31) << shift;
      shift += 5;
    } while (code & 32 && at < text.length);
    if (code & 16) value |= -1 << shift;
    counts.push(counts.length > 2 ? value + counts[counts.length - 2] : value);
  }
  return counts;
}

// A mask as upright bars, one pixel wide or as many as are full; runs go down the columns of the image.
function maskPath(text, height) {
  let path = "";
  let at = 0;
  const bar = (x, y, width, length) => (path += `M${x} ${y}h${width}v${length}h${-width}z`);
  runLengths(text).forEach((n, i) => {
    let [start, end] = [at, at + n];
    at = end;
    if (i % 2 === 0) return;
    while (start < end) {
      const [x, y] = [Math.floor(start / height), start % height];
      const full = y === 0 ? Math.floor((end - start) / height) : 0;
      const length = Math.min(end - start, height - y);
      bar(x, y, full || 1, full ? height : length);
      start += full ? full * height : length;
    }
  });
  return path;
}

function drawShape(box, height) {
  const { shape, points, skeleton } = box;
  const own = box.color && { stroke: box.color.stroke, "stroke-dasharray": box.color.dash };
  const parts = [];
  if (typeof shape === "string") {
    const fill = box.color && { fill: box.color.stroke };
    parts.push(s("path", { class: "mask " + box.kind, d: maskPath(shape, height), css: fill }));
  } else if (shape) {
    const d = outlinePath(shape);
    parts.push(s("path", { class: "b halo", d }), s("path", { class: "b " + box.kind, d, css: own }));
  }
  if (!points) return parts;
  const place = (i) => [points[3 * i] / 10, points[3 * i + 1] / 10];
  const labelled = (i) => points[3 * i + 2] > 0;
  const n = points.length / 3;
  const lines = skeleton.filter(([a, b]) => a < n && b < n && labelled(a) && labelled(b));
  const d = lines.map(([a, b]) => `M${place(a).join(" ")}L${place(b).join(" ")}`).join("");
  if (d)
    parts.push(s("path", { class: "bone halo", d }), s("path", { class: "bone " + box.kind, d, css: own }));
  const dots = (wanted, name) => {
    const at = Array.from({ length: n }, (_, i) => i).filter((i) => wanted(points[3 * i + 2]));
    if (at.length)
      parts.push(
        s("path", {
          class: `joint ${name} ${box.kind}`,
          d: at.map((i) => `M${place(i).join(" ")}h0`).join(""),
          css: own && { stroke: own.stroke },
        }),
      );
  };
  dots((v) => v > 0, "all");
  if (!isNumber(box.score)) dots((v) => v === 1, "hidden"); // of detections the third number means other things
  return parts;
}
