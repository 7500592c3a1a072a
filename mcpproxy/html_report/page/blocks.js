// Blocks of data in this file: JSON in elements of a type that no browser runs, plain or compressed.

function plainBlock(name) {
  return JSON.parse(document.getElementById(name).textContent);
}

/** The value of a compressed block. Its element is emptied, as one copy is enough. */
async function packedBlock(name) {
  const element = document.getElementById(name);
  const packed = Uint8Array.from(atob(JSON.parse(element.textContent)), (char) => char.charCodeAt(0));
  element.textContent = "";
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** Gives the browser time to draw and to react. */
function breath() {
  return new Promise((resolve) => setTimeout(resolve));
}
