// A gallery of annotations or detections.

function drawPage(X, sources) {
  const what = t(X.side === "det" ? "page.detections" : "page.annotations");
  head(
    X,
    what,
    h(
      "p",
      { class: "cap" },
      [
        t("images", { n: X.imageCount }),
        t("classes", { n: X.classes.length }),
        t("boxes", { n: X.boxCount }),
      ].join(" · "),
    ),
  );
  datasetFoot(X);
  const st = datasetState(X);
  const parts = [];
  let gallery = null;
  const redraw = makeRedraw(parts, () => gallery);
  parts.push(
    datasetBar(X, st, redraw, [
      ["images", t("section.images")],
      ["classes", t("section.classes")],
    ]),
  );
  gallery = datasetGallery(X, st, sources, redraw, t("gallery.title"));
  parts.push(
    datasetClasses(X, st, redraw, [
      ["boxes", count],
      ["images", count],
    ]),
  );
  parts.forEach((part) => part());
  gallery.draw();
}
