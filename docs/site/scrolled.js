// Parts that scroll by themselves (code, tables, figures) take the focus, so that arrow keys move them.
(() => {
  const scrolls = (each) => /auto|scroll/.test(getComputedStyle(each).overflowX) && each.scrollWidth > each.clientWidth;
  const check = (each) => each.toggleAttribute("tabindex", scrolls(each)) && each.setAttribute("tabindex", "0");
  const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => check(target)));
  addEventListener("DOMContentLoaded", () => {
    for (const each of document.querySelectorAll("article pre, article table, article .table-wrapper, .output, .plotly-figure, div.math, .math-wrapper"))
      sizes.observe(each);
  });
})();
