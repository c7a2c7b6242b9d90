// A QEMU that mirrors at once, and then has its guest on the target. It is made up: no byte is copied.
import { Refused, type FakeQmp, type FakeQmpAnswer } from "./fake-qmp.ts";

type Arguments = Readonly<Record<string, unknown>>;

export class FakeMirror {
  /** Topmost nodes, the first of them the guest's. */
  readonly tops: string[];
  readonly groups = new Set<string>();
  readonly jobs = new Map<string, string>();
  readonly reopened: Arguments[] = [];
  readonly added: Arguments[] = [];
  /** Another node is between the guest and its drive. */
  isHidden = false;
  target = "";
  readonly #answers: Map<string, FakeQmpAnswer>;

  constructor(qmp: FakeQmp, top = "drive-scsi0") {
    this.tops = [top];
    this.#answers = qmp.answers;
    this.on("object-add", ({ id }) => void this.groups.add(String(id)));
    this.on("object-del", ({ id }) => {
      if (!this.groups.delete(String(id))) throw new Refused(`object '${String(id)}' not found`);
    });
    this.on("blockdev-add", (args) => {
      this.added.push(args);
      this.tops.push(String(args["node-name"]));
    });
    this.on("blockdev-del", (args) => this.#delete(String(args["node-name"])));
    this.on("blockdev-reopen", ({ options }) => void this.reopened.push(...(options as Arguments[])));
    this.on("blockdev-mirror", (args) => this.#mirror(args));
    this.on("job-complete", ({ id }) => this.complete(String(id)));
    this.on("job-cancel", ({ id }) => void this.jobs.set(String(id), "concluded"));
    this.on("job-dismiss", ({ id }) => void this.jobs.delete(String(id)));
    this.#answers.set("query-jobs", () =>
      [...this.jobs].map(([id, status]) => ({ id, status, "current-progress": 1, "total-progress": 2 })),
    );
    this.#answers.set("query-named-block-nodes", () => this.tops.map((name) => ({ "node-name": name })));
    this.#answers.set("query-block", () => [
      { device: "" },
      { inserted: { "node-name": this.isHidden ? "#block7" : this.tops[0] } },
    ]);
  }

  on(command: string, act: (args: Arguments) => void): void {
    this.#answers.set(command, (args) => {
      act(args);
      return {};
    });
  }

  /** What QEMU does when a job is told to complete. */
  complete(id: string): void {
    this.jobs.set(id, "concluded");
    this.#delete(this.target);
    this.tops.unshift(this.target);
  }

  #mirror(args: Arguments): void {
    // With `replaces` a QEMU before 9.0 hangs where the drive has an I/O thread.
    if (args["device"] !== this.tops[0] || "replaces" in args) throw new Refused("not the guest's drive");
    this.target = String(args["target"]);
    this.jobs.set(String(args["job-id"]), "ready");
  }

  #delete(name: string): void {
    const at = this.tops.indexOf(name);
    if (at < 0) throw new Refused(`Failed to find node with node-name='${name}'`);
    this.tops.splice(at, 1);
  }
}
