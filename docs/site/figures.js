// Draws the figures of a notebook in place of their pictures, each when it is about to be seen, on the page's ground.

(() => {
  const drawn = new Set();
  const systemDark = window.matchMedia("(prefers-color-scheme: dark)");

  function isDark() {
    const { theme } = document.body.dataset;
    return theme === "dark" || (theme !== "light" && systemDark.matches);
  }

  function look() {
    const template = window.gnnqlabTemplates[isDark() ? "dark" : "light"];
    return { template, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)" };
  }

  // Whether there is no room, as on a phone, for the legend, which would lie on the title, or for panels side by side.
  function isCrowded(figure) {
    const isCut = [...figure.querySelectorAll(".legend .scrollbar")].some((bar) => Number(bar.getAttribute("height")) > 0);
    const axes = Object.entries(figure.layout).filter(([name]) => /^xaxis\d*$/.test(name));
    const hasColumns = axes.some(([, axis]) => (axis.domain?.[0] ?? 0) > 0.2);
    return isCut || (hasColumns && figure.clientWidth < 560);
  }

  async function draw(place) {
    const { data, layout, frames } = JSON.parse(place.querySelector("script").textContent);
    const figure = document.createElement("div");
    place.append(figure);
    const config = { responsive: true, displayModeBar: false };
    const plot = () => Plotly.newPlot(figure, structuredClone({ data, layout: { ...layout, ...look() }, frames, config }));
    try {
      await plot();
      if (isCrowded(figure)) {
        figure.style.minWidth = "40rem"; // moved sideways in its place
        await plot(); // anew: margins that a legend has taken are not given back
      }
    } catch (error) {
      figure.remove(); // the picture stays
      throw error;
    }
    place.querySelector("img")?.remove();
    drawn.add(figure);
  }

  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        draw(target);
      }
    },
    { rootMargin: "400px" },
  );
  document.querySelectorAll(".plotly-figure").forEach((place) => near.observe(place));

  function repaint() {
    drawn.forEach((figure) => Plotly.relayout(figure, look()));
  }
  new MutationObserver(repaint).observe(document.body, { attributeFilter: ["data-theme"] });
  systemDark.addEventListener("change", repaint);
})();
