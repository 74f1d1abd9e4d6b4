"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const WIDTH = 232, LINE = 15, MANY = 900, CHARACTERS = 34;
  const COLOURS = ["#2f7ed8", "#d9822b", "#2b9a66", "#8145b5", "#c4456e", "#0e8f9c", "#8a7a10"], PLAIN = "#7d838c";
  const nodes = new Map(data.nodes.map((node) => [node.id, node]));
  const readers = new Map(), sources = new Map();
  for (const edge of data.edges) {
    for (const [table, key] of [[readers, edge.source], [sources, edge.target]]) {
      if (!table.has(key)) table.set(key, []);
      table.get(key).push(edge);
    }
  }
  const drawn = new Map();
  const hidden = new Set();
  let chosen = null, found = [], at = -1, view = { x: 0, y: 0, scale: 1 }, size = { width: 1, height: 1 };

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    return filled(element, attributes, children);
  }
  function draw(tag, attributes = {}, ...children) {
    return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  }
  function filled(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }
  const coloured = data.groups.filter((group) => !data.plain.includes(group));
  const colour = (group) => (coloured.includes(group) ? COLOURS[coloured.indexOf(group) % COLOURS.length] : PLAIN);
  const ended = (text, most) => (text.length <= most ? text : "\u2026" + text.slice(text.length - most + 1));
  const begun = (text, most) => (text.length <= most ? text : text.slice(0, most - 1) + "\u2026");
  function shown(metric, value) {
    if (value === undefined) return "";
    const size = Math.abs(value);
    if (size && (size < 1e-3 || size >= 1e15)) return value.toExponential(metric.digits - 1);
    return value.toLocaleString("en", { maximumSignificantDigits: size < 1e3 ? metric.digits : 15, maximumFractionDigits: 3 });
  }

  /* The frame of the page. */
  const header = make("header", {}, make("h1", {}, data.title), make("p", { class: "mono" }, data.command));
  for (const line of data.summary) header.append(make("p", {}, line));
  const search = make("input", { type: "search", id: "search", placeholder: "search (press /)", "aria-label": "search", oninput: seek, onkeydown: step });
  const count = make("span", { class: "count", id: "count" });
  const colouring = make("select", { id: "colour", "aria-label": "colour", onchange: paint }, make("option", { value: "" }, "colour: " + data.grouped_by));
  for (const metric of data.metrics) colouring.append(make("option", { value: metric.key }, "colour: " + metric.title));
  const button = (id, text, title, action) => make("button", { id, type: "button", title, onclick: action }, text);
  const table = button("table", "table", "Show layers as a table", () => setTable(main.className !== "table"));
  const bar = make("div", { class: "bar" }, search, count,
    button("in", "+", "Zoom in", () => zoom(1.3)), button("out", "\u2212", "Zoom out", () => zoom(1 / 1.3)),
    button("fit", "fit", "Show all", fit), table);
  if (data.metrics.length) bar.append(colouring);
  const keys = make("div", { class: "keys" });
  const sizes = new Map();
  for (const node of data.nodes) sizes.set(node.group, (sizes.get(node.group) || 0) + 1);
  for (const group of data.groups) {
    if (!sizes.has(group)) continue;
    const key = make("button", { type: "button", "aria-pressed": "true", title: "Show or dim", style: `--group: ${colour(group)}` },
      make("i"), `${group} (${sizes.get(group)})`);
    key.addEventListener("click", () => {
      if (!hidden.delete(group)) hidden.add(group);
      key.setAttribute("aria-pressed", String(!hidden.has(group)));
      paint();
    });
    keys.append(key);
  }
  bar.append(keys);
  const main = make("main");
  const aside = make("aside", { id: "details" });
  document.body.append(header, bar, main, aside);

  /* Where boxes lie. */
  function layout() {
    const height = (node) => LINE * (1 + Boolean(node.name) + Boolean(node.note)) + 14;
    if (data.nodes.length > MANY) return column(height);
    const graph = new dagre.graphlib.Graph({ multigraph: true });
    graph.setGraph({ nodesep: 26, ranksep: 34, marginx: 20, marginy: 20 });
    graph.setDefaultEdgeLabel(() => ({}));
    /* dagre keeps nodes in plain objects, of which names such as "constructor" are members already. */
    const ids = new Map(data.nodes.map((node, index) => [node.id, `n${index}`]));
    for (const node of data.nodes) graph.setNode(ids.get(node.id), { width: WIDTH, height: height(node) });
    data.edges.forEach((edge, index) => graph.setEdge(ids.get(edge.source), ids.get(edge.target), {}, `e${index}`));
    dagre.layout(graph);
    const label = graph.graph();
    return {
      width: label.width, height: label.height,
      boxes: new Map(data.nodes.map((node) => [node.id, graph.node(ids.get(node.id))])),
      paths: data.edges.map((edge, index) => graph.edge({ v: ids.get(edge.source), w: ids.get(edge.target), name: `e${index}` }).points),
    };
  }
  /* Of many boxes, each below all that it reads, side by side in order: dagre recurses as deep as a network is, and has no time. */
  function column(height) {
    const rank = new Map(), rows = [];
    for (const node of data.nodes) { /* which are in an order in which they can run */
      let own = 0;
      for (const edge of sources.get(node.id) || []) own = Math.max(own, (rank.get(edge.source) ?? -1) + 1);
      rank.set(node.id, own);
      (rows[own] ||= []).push(node);
    }
    const boxes = new Map();
    const widest = rows.reduce((most, row) => Math.max(most, row.length), 1) * (WIDTH + 26);
    let y = 20;
    for (const row of rows) {
      const tall = Math.max(...row.map(height));
      row.forEach((node, index) => {
        const x = widest / 2 + (index - (row.length - 1) / 2) * (WIDTH + 26);
        boxes.set(node.id, { x, y: y + tall / 2, width: WIDTH, height: height(node) });
      });
      y += tall + 34;
    }
    const paths = data.edges.map((edge) => {
      const from = boxes.get(edge.source), to = boxes.get(edge.target);
      return [{ x: from.x, y: from.y + from.height / 2 }, { x: to.x, y: to.y - to.height / 2 }];
    });
    return { width: widest + 40, height: y, boxes, paths };
  }
  function curve(points) {
    let path = `M${points[0].x},${points[0].y}`;
    for (let i = 1; i < points.length; i++) {
      const a = points[i - 1], b = points[i], middle = (a.y + b.y) / 2;
      path += ` C${a.x},${middle} ${b.x},${middle} ${b.x},${b.y}`;
    }
    return path;
  }

  /* The picture. */
  const stage = draw("g");
  const svg = draw("svg", { id: "picture", role: "application", "aria-label": "network" },
    draw("defs", {}, draw("marker", { id: "tip", viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" },
      draw("path", { d: "M0,0 L10,5 L0,10 z", fill: "var(--edge)" }))), stage);
  const arrows = [];
  function picture() {
    if (!data.nodes.length) return;
    const plan = layout();
    size = { width: plan.width, height: plan.height };
    data.edges.forEach((edge, index) => {
      const arrow = draw("g", { class: "edge" }, draw("path", { d: curve(plan.paths[index]), "marker-end": "url(#tip)" }));
      if (edge.label) arrow.append(draw("title", {}, edge.label));
      arrows.push(arrow);
      stage.append(arrow);
    });
    for (const node of data.nodes) {
      const box = plan.boxes.get(node.id), left = box.x - WIDTH / 2, top = box.y - box.height / 2;
      const group = draw("g", {
        class: "node" + (node.marks.length ? " marked" : ""), "data-id": node.id, tabindex: 0, role: "button",
        "aria-label": `${node.title} ${node.name}`, style: `--group: ${colour(node.group)}`,
        onclick: (event) => { event.stopPropagation(); if (!moved) choose(node.id); },
        onkeydown: (event) => { if (event.key === "Enter") choose(node.id); },
      }, draw("rect", { x: left, y: top, width: WIDTH, height: box.height, rx: 6 }));
      const lines = [["title", begun(node.title, CHARACTERS)], ["name", ended(node.name, CHARACTERS)], ["note", begun(node.note, CHARACTERS)]];
      lines.filter(([, text]) => text).forEach(([kind, text], index) => {
        group.append(draw("text", { class: kind, x: left + 9, y: top + 18 + LINE * index }, text));
      });
      group.append(draw("title", {}, [node.title, node.name, node.note].filter(Boolean).join("\n")));
      drawn.set(node.id, { group, box });
      stage.append(group);
    }
  }
  function place() { stage.setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.scale})`); }
  function fit() {
    const { clientWidth: width, clientHeight: height } = main;
    const scale = Math.min(width / size.width, height / size.height, 1);
    view = { scale, x: (width - size.width * scale) / 2, y: (height - size.height * scale) / 2 };
    place();
  }
  function begin() { /* all of a small network; of a large one the beginning, so that it can be read */
    fit();
    if (view.scale >= 0.5 || !data.nodes.length) return;
    const { box } = drawn.get(data.nodes[0].id);
    view = { scale: 0.85, x: main.clientWidth / 2 - box.x * 0.85, y: 8 };
    place();
  }
  function zoom(factor, x = main.clientWidth / 2, y = main.clientHeight / 2) {
    const scale = Math.min(Math.max(view.scale * factor, 0.02), 6), real = scale / view.scale;
    view = { scale, x: x - (x - view.x) * real, y: y - (y - view.y) * real };
    place();
  }
  function centre(id) {
    const { box } = drawn.get(id);
    view.scale = Math.max(view.scale, 0.55);
    view.x = main.clientWidth / 2 - box.x * view.scale;
    view.y = main.clientHeight / 2 - box.y * view.scale;
    place();
  }
  let held = null, moved = false;
  svg.addEventListener("pointerdown", (event) => { held = { x: event.clientX - view.x, y: event.clientY - view.y, from: [event.clientX, event.clientY] }; moved = false; });
  window.addEventListener("pointermove", (event) => {
    if (!held) return;
    if (!moved && Math.hypot(event.clientX - held.from[0], event.clientY - held.from[1]) < 4) return;
    moved = true;
    svg.classList.add("held");
    view.x = event.clientX - held.x;
    view.y = event.clientY - held.y;
    place();
  });
  window.addEventListener("pointerup", () => { held = null; svg.classList.remove("held"); });
  svg.addEventListener("click", () => { if (!moved) choose(null); });
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const bounds = svg.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - bounds.left, event.clientY - bounds.top);
  }, { passive: false });

  /* Colours: by group, or from cold to hot by a number. */
  function paint() {
    const metric = data.metrics.find((one) => one.key === colouring.value);
    const values = metric ? data.nodes.map((node) => node.values[metric.key]).filter((value) => value > 0) : [];
    const most = values.reduce((a, b) => Math.max(a, b), 0);
    const near = new Set(chosen ? [...(sources.get(chosen) || []), ...(readers.get(chosen) || [])] : []);
    const hits = new Set(found);
    for (const node of data.nodes) {
      const { group } = drawn.get(node.id);
      const share = metric && most ? Math.max(node.values[metric.key] || 0, 0) / most : 0;
      if (metric) group.style.setProperty("--fill", `color-mix(in srgb, #d7301f ${Math.round(100 * Math.sqrt(share))}%, var(--paper))`);
      else group.style.removeProperty("--fill");
      group.classList.toggle("dim", hidden.has(node.group) || (search.value !== "" && !hits.has(node.id)));
      group.classList.toggle("found", search.value !== "" && hits.has(node.id));
      group.classList.toggle("chosen", node.id === chosen);
    }
    data.edges.forEach((edge, index) => {
      arrows[index].classList.toggle("near", near.has(edge));
      arrows[index].classList.toggle("dim", hidden.has(nodes.get(edge.source).group) || hidden.has(nodes.get(edge.target).group));
    });
    for (const row of main.querySelectorAll("tbody tr")) {
      const id = row.dataset.id;
      row.classList.toggle("chosen", id === chosen);
      row.classList.toggle("hidden", hidden.has(nodes.get(id).group) || (search.value !== "" && !hits.has(id)));
    }
  }

  /* Search: in names, words, reasons, and all else that is told of a layer. */
  const texts = new Map(data.nodes.map((node) => [node.id,
    [node.title, node.name, node.note, node.group, ...node.marks, ...node.details.flat()].join("\n").toLowerCase()]));
  function seek() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = words.length ? data.nodes.filter((node) => words.every((word) => texts.get(node.id).includes(word))).map((node) => node.id) : [];
    at = -1;
    tell();
    paint();
  }
  function tell() {
    count.textContent = !search.value ? "" : found.length ? (at < 0 ? `${found.length} found` : `${at + 1} of ${found.length}`) : "none found";
  }
  function step(event) {
    if (event.key === "Escape") { search.value = ""; seek(); search.blur(); }
    if (event.key !== "Enter" || !found.length) return;
    at = (at + (event.shiftKey ? found.length - 1 : 1)) % found.length;
    choose(found[at]);
    centre(found[at]);
    tell();
  }

  /* What is told of the chosen layer. */
  function choose(id) {
    chosen = id;
    aside.replaceChildren();
    if (id === null) {
      for (const [heading, lines] of data.lists) {
        aside.append(make("h3", {}, heading), make("ul", {}, ...lines.map((line) => make("li", {}, line))));
      }
      if (!data.lists.length) aside.append(make("p", {}, "Choose a layer to see what is known of it."));
    } else {
      const node = nodes.get(id);
      aside.append(make("h2", {}, node.title));
      if (node.name) aside.append(make("p", { class: "mono" }, node.name));
      const marks = make("p", {}, ...node.marks.map((mark) => make("span", { class: "mark" }, mark)));
      if (node.marks.length) aside.append(marks);
      for (const metric of data.metrics) {
        if (node.values[metric.key] !== undefined) aside.append(make("h3", {}, metric.title), make("p", {}, shown(metric, node.values[metric.key])));
      }
      for (const [heading, text] of node.details) aside.append(make("h3", {}, heading), make("p", {}, text));
      for (const [heading, edges, end] of [["reads", sources.get(id), "source"], ["is read by", readers.get(id), "target"]]) {
        if (!edges) continue;
        const list = make("ul");
        for (const edge of edges) {
          const other = nodes.get(edge[end]);
          const link = make("a", { tabindex: 0, onclick: () => { choose(other.id); centre(other.id); } }, other.name || other.title);
          list.append(make("li", {}, link, edge.label ? ` ${edge.label}` : ""));
        }
        aside.append(make("h3", {}, heading), list);
      }
    }
    paint();
  }

  /* The same as a table, sorted by any column. */
  let order = { column: 0, up: true };
  const columns = [
    { title: "#", of: (node, index) => index + 1, number: true },
    { title: "layer", of: (node) => node.name },
    { title: "computes", of: (node) => node.title },
    { title: "output", of: (node) => node.note, whole: true },
    { title: data.grouped_by, of: (node) => node.group },
    ...data.metrics.map((metric) => ({ title: metric.title, of: (node) => node.values[metric.key], text: (value) => shown(metric, value), number: true })),
  ];
  function setTable(on) {
    main.className = on ? "table" : "";
    table.textContent = on ? "picture" : "table";
    main.replaceChildren(on ? list() : svg);
    paint();
  }
  function list() {
    const heads = columns.map((column, index) => make("th", { class: column.number ? "number" : null },
      make("button", { type: "button", onclick: () => { order = { column: index, up: order.column === index ? !order.up : !column.number || index === 0 }; setTable(true); } },
        column.title + (order.column === index ? (order.up ? " \u25b4" : " \u25be") : ""))));
    const rows = data.nodes.map((node, index) => ({ node, key: columns[order.column].of(node, index), index }));
    const sign = order.up ? 1 : -1;
    rows.sort((a, b) => {
      if (a.key === b.key) return a.index - b.index;
      if (a.key === undefined || b.key === undefined) return a.key === undefined ? 1 : -1;
      return (a.key < b.key ? -1 : 1) * sign;
    });
    const body = rows.map(({ node, index }) => make("tr", { "data-id": node.id, onclick: () => choose(node.id) },
      ...columns.map((column) => {
        const value = column.of(node, index);
        return make("td", { class: column.number ? "number" : column.whole ? "whole" : null }, column.text ? column.text(value) : String(value ?? ""));
      })));
    return make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...body));
  }

  document.addEventListener("keydown", (event) => {
    if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
    if (event.key === "/") { event.preventDefault(); search.focus(); }
    else if (event.key === "+") zoom(1.3);
    else if (event.key === "-") zoom(1 / 1.3);
    else if (event.key === "0") fit();
    else if (event.key === "Escape") choose(null);
  });
  main.append(make("p", { class: "busy" }, `laying out ${data.nodes.length} layers \u2026`));
  setTimeout(() => { /* so that the browser shows the words first */
    picture();
    main.replaceChildren(svg);
    begin();
    choose(null);
    document.documentElement.dataset.ready = "yes";
  }, 0);
})();
