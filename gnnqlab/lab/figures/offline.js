// Plotly lies in the page packed, so that the page stays small enough to be mailed.
async function unpack() {
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (each) => each.charCodeAt(0));
  const script = document.createElement("script");
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  script.textContent = await new Response(plain).text();
  document.head.append(script);
}
