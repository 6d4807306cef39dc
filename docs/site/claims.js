// Filters the table of claims by paper, verdict and words.

(() => {
  const form = document.querySelector(".claims-filter");
  if (!form) return;
  const rows = [...document.querySelectorAll("table.claims tbody tr")];

  function filter() {
    const { paper, verdict, words } = form.elements;
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const fits = (!paper.value || row.dataset.paper === paper.value) && (!verdict.value || row.dataset.verdict === verdict.value);
      row.hidden = !(fits && wanted.every((word) => text.includes(word)));
    }
    form.querySelector("output").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} claims`;
  }

  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
})();
