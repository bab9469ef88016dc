// Unpack the data, draw the page, and say so; where the browser is too old, say that.

(async () => {
  const begin = performance.now();
  document.documentElement.lang = LANGUAGE;
  byId("skip").textContent = t("skip");
  byId("bar").setAttribute("aria-label", t("bar"));
  const data = await unpack(byId("data").textContent);
  const sources = byId("pictures").textContent.split("\n");
  document.title = clean(told(data.title));
  drawPage(data, sources);
  showTips();
  document.documentElement.dataset.ready = "1";
  document.documentElement.dataset.loadTime = String(Math.round(performance.now() - begin));
})().catch((error) => {
  const old = typeof DecompressionStream === "undefined";
  const text = old ? t("too-old") : t("not-drawn", { error: error.message });
  byId("main").append(h("p", { class: "doubt" }, text));
  document.documentElement.dataset.ready = "failed";
  if (!old) console.error(error);
});
