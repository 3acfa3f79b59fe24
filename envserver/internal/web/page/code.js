// Colours of code: comments, strings, numbers and words of the common languages.
import { el } from "./dom.js";
import { visible } from "./text.js";

const words = new Set(("and as assert async await break case catch class const continue def default del do elif else enum except export extends false False finally fn for from func function " +
  "global go if impl import in interface is lambda let match mut new nil None nonlocal not null or package pass pub public private raise range return self static struct super switch this " +
  "throw true True try type undefined use var void while with yield then fi done echo esac").split(" "));
const hash = /\.(py|pyi|sh|bash|zsh|rb|ya?ml|toml|ini|cfg|conf|mk|pl|r|jl|tf)$|(^|\/)(Makefile|Dockerfile)$/i;
const plain = /\.(md|txt|rst|csv|tsv|log|json|lock)$|^$/i;
const maxChars = 200_000; // longer files are shown without colours

/** painter returns a function that makes nodes of a file's text, by the file's name. */
export function painter(name) {
  if (plain.test(name) && !/\.json$/i.test(name)) return (text) => [visible(text)];
  const comment = hash.test(name) ? "(?<![^\\s])#[^\\n]*" : "\\/\\/[^\\n]*|\\/\\*[\\s\\S]*?\\*\\/";
  const token = new RegExp(`(${comment})|("""[\\s\\S]*?"""|'''[\\s\\S]*?'''|"(?:[^"\\\\\\n]|\\\\.)*"|'(?:[^'\\\\\\n]|\\\\.)*'|\`(?:[^\`\\\\]|\\\\.)*\`)|\\b(\\d[\\w.]*)\\b|([A-Za-z_]\\w*)`, "g");
  return (text) => (text.length > maxChars ? [visible(text)] : paint(text, token));
}

function paint(text, token) {
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(token)) {
    const tone = found[1] ? "comment" : found[2] ? "string" : found[3] ? "figure" : words.has(found[4]) ? "word" : null;
    if (!tone) continue;
    nodes.push(visible(text.slice(at, found.index)), el("span", { class: "c-" + tone }, visible(found[0])));
    at = found.index + found[0].length;
  }
  nodes.push(visible(text.slice(at)));
  return nodes;
}
