// Backups of guests as a platform in memory has them.
interface BackedUp {
  node: string;
  status: "running" | "stopped";
  config: Record<string, string>;
}

interface Backup {
  readonly vmid: number;
  readonly volid: string;
  readonly ctime: number;
  readonly config: Readonly<Record<string, string>>;
}

type Refuse = (status: number, message: string) => Error;
type Values = Readonly<Record<string, string>>;

export class FakeBackups {
  readonly kept: Backup[] = [];
  #made = 0;

  /** undefined: it is about something else. */
  handle(
    what: string,
    node: string,
    values: Values,
    guests: Map<number, BackedUp>,
    refused: Refuse,
  ): { readonly answer: unknown } | undefined {
    const volid = decodeURIComponent(/^DELETE \/storage\/[^/]+\/content\/(.+)$/.exec(what)?.[1] ?? "");
    const at = this.kept.findIndex((each) => each.volid === volid);
    if (at >= 0) {
      this.kept.splice(at, 1);
      return { answer: null };
    }
    const storage = /^GET \/storage\/([^/]+)\/content$/.exec(what)?.[1];
    if (storage !== undefined && values["content"] === "backup")
      return { answer: this.kept.filter((each) => each.volid.startsWith(`${storage}:`)) };
    if (what === "POST /vzdump")
      return { answer: this.#make(Number(values["vmid"]), values, guests, refused) };
    if (what === "GET /vzdump/extractconfig")
      return { answer: textOf(this.#find(values["volume"], refused).config) };
    const archive = values["archive"];
    if (what !== "POST /qemu" || archive === undefined) return undefined;
    return {
      answer: this.#restore(Number(values["vmid"]), node, this.#find(archive, refused), guests, refused),
    };
  }

  #find(volid: string | undefined, refused: Refuse): Backup {
    const found = this.kept.find((each) => each.volid === volid);
    if (found === undefined) throw refused(500, `volume '${volid}' does not exist`);
    return found;
  }

  #make(vmid: number, { storage }: Values, guests: Map<number, BackedUp>, refused: Refuse): null {
    const guest = guests.get(vmid);
    if (guest === undefined) throw refused(500, `unable to find VM '${vmid}'`);
    this.#made += 1;
    this.kept.push({
      vmid,
      volid: `${storage}:backup/vzdump-qemu-${vmid}-2026_01_02-03_04_${String(this.#made).padStart(2, "0")}.vma.zst`,
      ctime: 1_767_323_000 + this.#made,
      config: { ...guest.config },
    });
    return null;
  }

  #restore(
    vmid: number,
    node: string,
    { config }: Backup,
    guests: Map<number, BackedUp>,
    refused: Refuse,
  ): null {
    const before = guests.get(vmid);
    if (before?.status === "running") throw refused(500, `unable to restore VM ${vmid} - VM is running`);
    if (before?.config["protection"] === "1")
      throw refused(500, `unable to restore VM ${vmid} - protection mode enabled`);
    guests.set(vmid, { node: before?.node ?? node, status: "stopped", config: { ...config } });
    return null;
  }
}

const textOf = (config: Readonly<Record<string, string>>): string =>
  Object.entries(config)
    .map(([key, value]) => `${key}: ${value}\n`)
    .join("");
