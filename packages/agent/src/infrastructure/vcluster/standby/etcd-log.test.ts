import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { confirmWholeLog } from "./etcd-log.ts";

// What `etcd --force-new-cluster` makes of it is in test/integration/vcluster-etcd-standby.test.ts.
const PART_BYTES = 8 * 1024;
const FIRST = "0000000000000000-0000000000000000.wal";
const SECOND = "0000000000000001-0000000000000004.wal";

let folder: string;
let wal: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-etcd-log-"));
  wal = join(folder, "member", "wal");
  mkdirSync(wal, { recursive: true });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Bit by bit, as the polynomial is written down. */
function sumOf(before: number, bytes: Uint8Array): number {
  let sum = BigInt(before) ^ 0xffff_ffffn;
  for (const byte of bytes) {
    sum ^= BigInt(byte);
    for (let bit = 0; bit < 8; bit++) sum = (sum >> 1n) ^ ((sum & 1n) * 0x82f6_3b78n);
  }
  return Number(sum ^ 0xffff_ffffn);
}

function numbers(...fields: readonly (readonly [number, number | Buffer])[]): Buffer {
  const varint = (value: number): Buffer => {
    const bytes = [];
    let left = value;
    for (; left >= 0x80; left = Math.floor(left / 0x80)) bytes.push((left % 0x80) + 0x80);
    return Buffer.from([...bytes, left]);
  };
  const field = ([number, value]: readonly [number, number | Buffer]): Buffer =>
    typeof value === "number"
      ? Buffer.concat([varint(number * 8), varint(value)])
      : Buffer.concat([varint(number * 8 + 2), varint(value.length), value]);
  return Buffer.concat(fields.map(field));
}

class Part {
  #sum: number;
  readonly #records: Buffer[] = [];

  constructor(sum = 0) {
    this.#sum = sum;
    this.#add(numbers([1, 4], [2, sum]));
    this.put(1, numbers([1, 77], [2, 88]));
  }

  get sum(): number {
    return this.#sum;
  }

  put(type: number, data: Buffer): this {
    this.#sum = sumOf(this.#sum, data);
    this.#add(numbers([1, type], [2, this.#sum], [3, data]));
    return this;
  }

  entry(index: number, bytes = 30): this {
    return this.put(2, numbers([1, 0], [2, 3], [3, index], [4, Buffer.alloc(bytes, index + 1)]));
  }

  state(commit: number): this {
    return this.put(3, numbers([1, 3], [2, 0xfedc_ba98], [3, commit]));
  }

  bytes(): Buffer {
    const all = Buffer.concat(this.#records);
    return Buffer.concat([all, Buffer.alloc(PART_BYTES - all.length)]);
  }

  /** Behind the last record. */
  get end(): number {
    return Buffer.concat(this.#records).length;
  }

  #add(record: Buffer): void {
    const padding = (8 - (record.length % 8)) % 8;
    const length = Buffer.alloc(8);
    length.writeUInt32LE(record.length);
    if (padding > 0) length.writeUInt8(0x80 + padding, 7);
    this.#records.push(length, record, Buffer.alloc(padding));
  }
}

const write = (name: string, bytes: Buffer): void => writeFileSync(join(wal, name), bytes);
const read = (name: string): Buffer => readFileSync(join(wal, name));

describe("the log of an etcd that goes on alone", () => {
  test("is confirmed to its end, with a sum that etcd expects", () => {
    const part = (): Part => new Part().entry(1).entry(2).state(1).entry(3);
    write(FIRST, part().bytes());
    expect(confirmWholeLog(folder)).toBe(true);
    expect(read(FIRST)).toEqual(part().state(3).bytes());
    // Done again it is done already.
    expect(confirmWholeLog(folder)).toBe(false);
    expect(read(FIRST)).toEqual(part().state(3).bytes());
  });

  test("is read where it was written last, and goes on from the parts before", () => {
    const first = new Part().entry(1).entry(2).entry(3).state(3);
    write(FIRST, first.bytes());
    const second = (): Part => new Part(first.sum).state(3);
    write(SECOND, second().bytes());
    expect(confirmWholeLog(folder)).toBe(false);
    write(SECOND, second().entry(4).bytes());
    expect(confirmWholeLog(folder)).toBe(true);
    expect(read(SECOND)).toEqual(second().entry(4).state(4).bytes());
    expect(read(FIRST)).toEqual(first.bytes());
  });

  test("of which the part before has the last writes is confirmed too", () => {
    const first = new Part().entry(1).entry(2).entry(3).state(1);
    write(FIRST, first.bytes());
    write(SECOND, new Part(first.sum).state(1).bytes());
    expect(confirmWholeLog(folder)).toBe(true);
    expect(read(SECOND)).toEqual(new Part(first.sum).state(1).state(3).bytes());
  });

  test("ends before what a loss of power has cut short, which goes", () => {
    const whole = (): Part => new Part().entry(1).state(1).entry(2);
    const { end } = whole();
    const torn = whole().entry(3, 2_000).bytes();
    torn.fill(0, end + 600);
    write(FIRST, torn);
    expect(confirmWholeLog(folder)).toBe(true);
    expect(read(FIRST)).toEqual(whole().state(2).bytes());
    // So does one of which only the beginning is there.
    write(
      FIRST,
      whole()
        .entry(3, 2_000)
        .bytes()
        .subarray(0, end + 700),
    );
    expect(confirmWholeLog(folder)).toBe(true);
    expect(read(FIRST).subarray(0, end + 48)).toEqual(
      whole()
        .state(2)
        .bytes()
        .subarray(0, end + 48),
    );
  });

  test("that is not what was written is left as it is, and told", () => {
    const bytes = new Part().entry(1).state(1).entry(2).bytes();
    bytes.writeUInt8(bytes.readUInt8(90) ^ 1, 90);
    write(FIRST, bytes);
    expect(() => confirmWholeLog(folder)).toThrow("is not what was written. Nothing was changed");
    expect(read(FIRST)).toEqual(bytes);
    rmSync(join(wal, FIRST));
    expect(() => confirmWholeLog(folder)).toThrow("it has no part");
  });

  test("that has been told nothing yet stays so", () => {
    write(FIRST, new Part().bytes());
    expect(confirmWholeLog(folder)).toBe(false);
    write("0000000000000009-0000000000000000.tmp", Buffer.from("nothing"));
    expect(confirmWholeLog(folder)).toBe(false);
  });
});
