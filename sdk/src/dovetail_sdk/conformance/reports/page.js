// Filters; without scripts everything is simply shown.
"use strict";
for (const tools of document.querySelectorAll(".tools")) {
  const rows = [...document.querySelectorAll(tools.dataset.of)];
  const search = tools.querySelector("input[type=search]");
  const boxes = [...tools.querySelectorAll("input[type=checkbox]")];
  const none = document.getElementById(tools.dataset.none);
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    let shown = 0;
    for (const row of rows) {
      const states = row.dataset.states.split(" ");
      const fits = states.some((state) => wanted.has(state)) && words.every((word) => row.dataset.text.includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    if (none) none.hidden = shown > 0;
  };
  tools.hidden = false;
  search.addEventListener("input", apply);
  for (const box of boxes) box.addEventListener("change", apply);
}
