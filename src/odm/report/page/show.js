// A gallery of annotations or detections.

function drawPage(X, sources) {
  const what = X.side === "det" ? "Detections" : "Annotations";
  head(
    X,
    what,
    h(
      "p",
      { class: "cap" },
      `${plural(X.imageCount, "image")} · ${plural(X.classes.length, "class", "classes")} · ${plural(X.boxCount, "box", "boxes")}`,
    ),
  );
  datasetFoot(X);
  const st = datasetState(X);
  const parts = [];
  let gallery = null;
  const redraw = makeRedraw(parts, () => gallery);
  parts.push(
    datasetBar(X, st, redraw, [
      ["images", "Images"],
      ["classes", "Classes"],
    ]),
  );
  gallery = datasetGallery(X, st, sources, redraw, "Images");
  parts.push(
    datasetClasses(X, st, redraw, [
      ["boxes", "Boxes", count],
      ["images", "Images", count],
    ]),
  );
  parts.forEach((part) => part());
  gallery.draw();
}
