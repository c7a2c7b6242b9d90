// Base64 without the runtime's help: the domain has neither Buffer nor atob. Bytes are kept one to a character.

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Decodes base64 to text, as UTF-8 where the bytes are UTF-8. */
export function decodeBase64Text(text: string): string {
  let bits = 0;
  let width = 0;
  let escaped = "";
  let bytes = "";
  for (const char of text.replace(/=+$/, "")) {
    const value = ALPHABET.indexOf(char);
    if (value < 0) continue;
    bits = ((bits << 6) | value) & 0xffff;
    width += 6;
    if (width < 8) continue;
    width -= 8;
    const byte = (bits >> width) & 0xff;
    bytes += String.fromCharCode(byte);
    escaped += `%${byte.toString(16).padStart(2, "0")}`;
  }
  try {
    return decodeURIComponent(escaped);
  } catch (error) {
    if (error instanceof URIError) return bytes;
    throw error;
  }
}
