"use strict";
(async () => {
  const unpack = async (id) => {
    const packed = atob(document.getElementById(id).textContent);
    const bytes = Uint8Array.from(packed, (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };

  const root = document.documentElement;
  const views = new Map();
  // The page's policy blocks the style sheets of Vega-Embed and its tooltips; report.css has what they need.
  const tooltip = { disableDefaultStyle: true };
  const options = { ast: true, renderer: "svg", actions: false, hover: false, defaultStyle: false, tooltip };

  for (const element of document.querySelectorAll(".needs-script")) element.hidden = false;

  const draw = async (id) => {
    const figure = document.getElementById(id);
    if (!figure) return;
    const target = figure.querySelector(".live");
    const { spec, reserve, extent, opens } = figures[id];
    const width = Math.max(120, figure.clientWidth - reserve - 2);
    const sized = { ...spec, vconcat: spec.vconcat.map((panel) => ({ ...panel, width })) };
    figure.classList.add("drawn");
    const before = views.get(id);
    if (before) before.result.finalize();
    const result = await vegaEmbed(target, sized, options);
    if (opens) await result.view.signal("zoom_t", opens).runAsync();
    views.set(id, { result, width, extent });
  };

  const drawAll = async () => {
    for (const id of Object.keys(figures)) {
      try {
        await draw(id);
      } catch (error) {
        document.getElementById(id).classList.remove("drawn");
        console.error(id, error);
      }
      await new Promise((resume) => setTimeout(resume));
    }
    root.dataset.figures = "drawn";
  };

  const move = {
    in: ([a, b]) => [a + (b - a) / 4, b - (b - a) / 4],
    out: ([a, b]) => [a - (b - a) / 2, b + (b - a) / 2],
    left: ([a, b]) => [a - (b - a) / 2, b - (b - a) / 2],
    right: ([a, b]) => [a + (b - a) / 2, b + (b - a) / 2],
  };

  const within = ([a, b], extent) => {
    const span = Math.min(b - a, extent);
    const start = Math.min(Math.max(a, 0), extent - span);
    return [start, start + span];
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const how = button.dataset.zoom;
    if (how) {
      const { result, extent } = views.get(button.closest("figure").id);
      const shown = result.view.signal("zoom").t ?? [0, extent];
      const wanted = how === "all" ? [0, extent] : within(move[how](shown), extent);
      result.view.signal("zoom_t", wanted).runAsync();
    }
    if (button.dataset.copy) copy(button);
    if (button.dataset.save) {
      download(button.dataset.file, "text/x-python", exactly(document.getElementById(button.dataset.save)));
    }
    if (button.id === "save-data") {
      unpack("tfbench-analysis").then((text) => download("tfbench-report.json", "application/json", text));
    }
  });

  const exactly = (code) => code.dataset.exact ? JSON.parse(code.dataset.exact) : code.textContent;

  const copy = async (button) => {
    const code = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(exactly(code));
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected: press Ctrl+C";
    }
  };

  const download = (name, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  };

  let waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      for (const [id, { width }] of views) {
        const figure = document.getElementById(id);
        const wanted = Math.max(120, figure.clientWidth - figures[id].reserve - 2);
        if (wanted !== width) await draw(id);
      }
    }, 200);
  });

  let figures = {};
  const charts = document.getElementById("tfbench-charts");
  if (charts) {
    const [code, specs] = await Promise.all([unpack("tfbench-charts"), unpack("tfbench-figures")]);
    figures = JSON.parse(specs);
    const script = document.createElement("script");
    script.textContent = code;
    document.body.append(script);
  }
  await drawAll();
})();
