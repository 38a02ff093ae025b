// The matrix of `host/CLIENTS.md`: which tests it says there are.

import { readFile } from "node:fs/promises";

const page = new URL("../../../host/CLIENTS.md", import.meta.url);

/** The names of the tests that the matrix refers to, line by line and cell by cell. */
export async function named() {
  const lines = (await readFile(page, "utf8")).split("\n");
  const rows = lines.filter((line) => /^\| `.* over /.test(line)).map((line) => line.split("|").slice(1, -1));
  return rows.flatMap(([clients, ...cells]) =>
    quoted(clients).flatMap((client) => cells.flatMap((cell) => quoted(cell).map((what) => `${client}: ${what}`))),
  );
}

function quoted(cell) {
  const found = [...cell.matchAll(/`([^`]+)`/g)].map(([, text]) => text);
  if (found.length === 0) throw new Error(`no test is named in: ${cell}`);
  return found;
}
