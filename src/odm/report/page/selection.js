// The images that the filters leave, to take along: copied, as a table of their boxes, or as a file for --only-images.

const quoted = (v) => (/[",\r\n]/.test(v) ? `"${String(v).replaceAll('"', '""')}"` : String(v));

function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type: type + ";charset=utf-8" }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "sr" }, text); // browsers that hold a file for no safe place
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

// `entries()` gives what is selected, as {image, panes}, `chosen(box, image)` which boxes belong to it.
function selectionTools(X, entries, chosen, paneNames) {
  const names = () => entries().map((entry) => X.pictures[entry.image][0]);
  const told = h("span", { class: "cap", role: "status" });
  const tell = (key) => {
    told.textContent = t(key, { n: entries().length });
  };
  const button = (name, run) =>
    h(
      "button",
      { class: "btn", "data-take": name, "data-tip": t("take." + name + ".about"), on: { click: run } },
      t("take." + name),
    );
  const rows = () => {
    const head = [
      "image",
      ...(paneNames ? ["run"] : []),
      "outcome",
      "class",
      "score",
      "left",
      "top",
      "right",
      "bottom",
    ];
    const lines = [[...head, "why"]];
    for (const entry of entries()) {
      entry.panes.forEach((boxes, i) => {
        for (const box of boxes.filter((one) => chosen(one, entry.image))) {
          const run = paneNames ? [paneNames[i]] : [];
          const score = isNumber(box.score) ? box.score : "";
          lines.push([X.pictures[entry.image][0], ...run, box.kind, box.name, score, ...box.box, box.why]);
        }
      });
    }
    return lines.map((line) => line.map(quoted).join(",") + "\r\n").join("");
  };
  return h(
    "div",
    { class: "take" },
    h("span", { class: "cap" }, t("take")),
    button("copy", () => copy(names().join("\n")).then(() => tell("take.copied"))),
    button("csv", () => {
      save("selection.csv", "text/csv", rows());
      tell("take.saved");
    }),
    button("list", () => {
      save("images.txt", "text/plain", names().join("\n") + "\n");
      tell("take.saved");
    }),
    told,
  );
}
