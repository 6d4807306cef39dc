// Plotly's script is stored compressed in the page, which stays small enough for e-mail.
async function unpack() {
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (each) => each.charCodeAt(0));
  const script = document.createElement("script");
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  script.textContent = await new Response(plain).text();
  document.head.append(script);
}
