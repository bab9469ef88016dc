// Unpack the data, draw the page, and say so; where the browser is too old, say that.

(async () => {
  const begin = performance.now();
  const data = await unpack(byId("data").textContent);
  const sources = byId("pictures").textContent.split("\n");
  drawPage(data, sources);
  document.documentElement.dataset.ready = "1";
  document.documentElement.dataset.loadTime = String(Math.round(performance.now() - begin));
})().catch((error) => {
  const old = typeof DecompressionStream === "undefined";
  const text = old
    ? "This page needs a browser of 2023 or newer."
    : `This page could not be drawn: ${error.message}`;
  byId("main").append(h("p", { class: "doubt" }, text));
  document.documentElement.dataset.ready = "failed";
  if (!old) console.error(error);
});
