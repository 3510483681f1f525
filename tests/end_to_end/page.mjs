// Opens index.html of the current folder without a browser, as #QUESTION asks, and prints the page that comes of it.
//
//     node page.mjs QUESTION [FILE]
//
// Elements are jsdom's. The script of the page runs in Node.js, as a module beside the page. A FILE is chosen in
// the page's field for files.
import { readFileSync, writeFileSync } from "fs";
import { basename } from "path";
import { pathToFileURL } from "url";
import { createRequire } from "module";

const [question, chosen] = process.argv.slice(2), folder = `${process.cwd()}/`;
const { JSDOM } = createRequire(folder)("jsdom");
const { window } = new JSDOM(readFileSync("index.html", "utf8"), { url: `http://localhost/#${question}` });
const { document } = window, [form] = document.forms;
for (const field of form.elements) if (field.name) form[field.name] = field; // jsdom's forms have no names
Object.assign(globalThis, { document, location: window.location, onhashchange: null });
globalThis.fetch = async path => {
  try { return new Response(readFileSync(path)); } catch { return new Response(null, { status: 404, statusText: "Not Found" }); }
};
const script = document.querySelector("script");
writeFileSync("page_script.mjs", script.textContent);
script.remove();
if (chosen) {
  const files = [new File([readFileSync(chosen)], basename(chosen))];
  Object.defineProperty(form.file, "files", { value: files });
}
await import(pathToFileURL(`${folder}page_script.mjs`));
const status = document.querySelector("[role=status]");
while (/\.\.\.$/.test(status.textContent)) await new Promise(resolve => setTimeout(resolve, 50));
process.stdout.write(document.documentElement.outerHTML);
