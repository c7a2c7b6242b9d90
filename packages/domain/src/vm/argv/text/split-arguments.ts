import { refused } from "../../../request/failures.ts";
// Splits the `args` key as a shell would split words: quotes and backslashes, nothing is expanded.

export function splitArguments(text: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote: string | undefined;
  for (let index = 0; index < text.length; index++) {
    const char = text.charAt(index);
    const escapes = char === "\\" && quote !== "'";
    if (escapes && index + 1 < text.length) {
      word = (word ?? "") + text.charAt(++index);
    } else if (quote !== undefined) {
      if (char === quote) quote = undefined;
      else word = (word ?? "") + char;
    } else if (char === '"' || char === "'") {
      quote = char;
      word ??= "";
    } else if (/\s/.test(char)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = (word ?? "") + char;
    }
  }
  if (quote !== undefined) throw refused(`args: no closing ${quote} in '${text}'`);
  if (word !== undefined) words.push(word);
  return words;
}
