// Which clusters of a device an archive has brought. It takes room for what has come, not for what a header promises: a
// header can promise a disk of exabytes.

const PAGE_CLUSTERS = 512;

export class SeenClusters {
  readonly #total: number;
  readonly #pages = new Map<number, Uint8Array>();
  #count = 0;

  constructor(total: number) {
    this.#total = total;
  }

  note(cluster: number): "new" | "again" | "beyond" {
    if (cluster >= this.#total) return "beyond";
    const page = this.#page(Math.floor(cluster / PAGE_CLUSTERS));
    const at = cluster % PAGE_CLUSTERS;
    const bit = 1 << (at & 7);
    const before = page[at >> 3] ?? 0;
    if ((before & bit) !== 0) return "again";
    page[at >> 3] = before | bit;
    this.#count++;
    return "new";
  }

  /** undefined = it is complete. */
  firstMissing(): number | undefined {
    if (this.#count === this.#total) return undefined;
    for (let number = 0; ; number++) {
      const page = this.#pages.get(number);
      const at = page?.findIndex((byte) => byte !== 0xff) ?? 0;
      if (at < 0) continue;
      const byte = page?.[at] ?? 0;
      return number * PAGE_CLUSTERS + at * 8 + Math.log2(~byte & (byte + 1));
    }
  }

  #page(number: number): Uint8Array {
    const page = this.#pages.get(number) ?? new Uint8Array(PAGE_CLUSTERS / 8);
    this.#pages.set(number, page);
    return page;
  }
}
