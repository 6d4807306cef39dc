// Players in frames: they report their height, and follow the theme of this page.
(() => {
  const frames = [...document.querySelectorAll("iframe.player")];
  const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
  const theme = () => {
    const { theme: own } = document.body.dataset;
    return own === "dark" || own === "light" ? own : systemDark.matches ? "dark" : "light";
  };
  const tell = (frame) => frame.contentWindow.postMessage({ gnnqlabTheme: theme() }, "*");
  const tallest = new WeakMap(); // the frame does not shrink and grow with the words of each step
  window.addEventListener("message", ({ data, source }) => {
    const frame = frames.find((each) => each.contentWindow === source);
    if (!frame || !data?.gnnqlabHeight) return;
    const [width, height] = tallest.get(frame) ?? [0, 0];
    const next = width === frame.clientWidth ? Math.max(height, data.gnnqlabHeight) : data.gnnqlabHeight;
    tallest.set(frame, [frame.clientWidth, next]);
    frame.style.height = `${next}px`;
    tell(frame);
  });
  for (const frame of frames) frame.addEventListener("load", () => tell(frame));
  new MutationObserver(() => frames.forEach(tell)).observe(document.body, { attributeFilter: ["data-theme"] });
})();
