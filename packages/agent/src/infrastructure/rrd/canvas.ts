// A picture in memory: coloured lines and small letters, written out as PNG.
import { crc32, deflateSync } from "node:zlib";

export type Colour = readonly [red: number, green: number, blue: number];

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const EIGHT_BITS = 8;
const TRUE_COLOUR = 2;

/** Three bits a row, five rows a letter. */
const GLYPHS: Readonly<Record<string, string>> = {
  "0": "75557",
  "1": "26227",
  "2": "71747",
  "3": "71717",
  "4": "55711",
  "5": "74717",
  "6": "74757",
  "7": "71122",
  "8": "75757",
  "9": "75717",
  a: "25755",
  b: "65656",
  c: "34443",
  d: "65556",
  e: "74647",
  f: "74644",
  g: "34553",
  h: "55755",
  i: "72227",
  j: "11153",
  k: "55655",
  l: "44447",
  m: "57755",
  n: "65555",
  o: "25552",
  p: "65644",
  q: "25563",
  r: "65655",
  s: "34216",
  t: "72222",
  u: "55557",
  v: "55552",
  w: "55775",
  x: "55255",
  y: "55222",
  z: "71247",
  ".": "00002",
  ":": "02020",
  "-": "00700",
  "%": "51245",
  "/": "11244",
};
const SCALE = 2;

export class Canvas {
  readonly width: number;
  readonly height: number;
  readonly #pixels: Buffer;

  constructor(width: number, height: number, [red, green, blue]: Colour) {
    this.width = width;
    this.height = height;
    this.#pixels = Buffer.alloc(width * height * 3);
    for (let at = 0; at < this.#pixels.length; at += 3) this.#pixels.set([red, green, blue], at);
  }

  dot(x: number, y: number, colour: Colour): void {
    if (x < 0 || y < 0 || x >= this.width || y >= this.height) return;
    this.#pixels.set(colour, (y * this.width + x) * 3);
  }

  line(from: readonly [number, number], to: readonly [number, number], colour: Colour, thick = 1): void {
    const steps = Math.max(Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1]), 1);
    for (let step = 0; step <= steps; step++) {
      const x = Math.round(from[0] + ((to[0] - from[0]) * step) / steps);
      const y = Math.round(from[1] + ((to[1] - from[1]) * step) / steps);
      for (let extra = 0; extra < thick; extra++) this.dot(x, y + extra, colour);
    }
  }

  box(x: number, y: number, width: number, height: number, colour: Colour): void {
    for (let row = y; row < y + height; row++)
      for (let column = x; column < x + width; column++) this.dot(column, row, colour);
  }

  /** Letters it does not have are left blank. */
  text(x: number, y: number, words: string, colour: Colour): void {
    for (const [index, letter] of words.toLowerCase().split("").entries()) {
      for (const [row, bits] of (GLYPHS[letter] ?? "").split("").entries()) {
        for (let column = 0; column < 3; column++) {
          if (((Number(bits) >> (2 - column)) & 1) === 0) continue;
          this.box(x + (index * 4 + column) * SCALE, y + row * SCALE, SCALE, SCALE, colour);
        }
      }
    }
  }

  png(): Buffer {
    const header = Buffer.alloc(13);
    header.writeUInt32BE(this.width, 0);
    header.writeUInt32BE(this.height, 4);
    header.set([EIGHT_BITS, TRUE_COLOUR, 0, 0, 0], 8);
    const rows = Buffer.alloc((this.width * 3 + 1) * this.height);
    for (let y = 0; y < this.height; y++) {
      // Each row starts with its filter: none.
      this.#pixels.copy(rows, y * (this.width * 3 + 1) + 1, y * this.width * 3, (y + 1) * this.width * 3);
    }
    return Buffer.concat([
      SIGNATURE,
      chunk("IHDR", header),
      chunk("IDAT", deflateSync(rows)),
      chunk("IEND", Buffer.alloc(0)),
    ]);
  }
}

/** Pixels that a text takes. */
export function textWidth(words: string): number {
  return Math.max(0, words.length * 4 - 1) * SCALE;
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const frame = Buffer.alloc(8 + body.length);
  frame.writeUInt32BE(data.length, 0);
  body.copy(frame, 4);
  frame.writeUInt32BE(crc32(body), 4 + body.length);
  return frame;
}
