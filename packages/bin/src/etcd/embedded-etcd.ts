// etcd as gpve runs it itself (`cluster.etcd.embedded: true`): a member on each of the first three servers. A further
// server comes in as a learner, which gets its vote when it has caught up; a fourth stands by until there is room.
import { existsSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { every } from "@gpve/kit/every.ts";
import { MemberCalls, linksWith, type StoreMember } from "@gpve/store/etcd/members.ts";
import type { MemberUrls } from "@gpve/store/etcd/etcd-store.ts";
import { openStore, type StoreConfig } from "@gpve/store/open-store.ts";
import { ensureAuthority, ensureCertificate } from "./etcd-certificates.ts";
import { clientUrl, etcdPlaces, peerUrl, type EmbeddedEtcdSettings, type EtcdPlaces } from "./etcd-places.ts";
import { lastWordsOfEtcd, runningEtcd, startEtcd } from "./etcd-process.ts";
import { nextStep } from "./next-step.ts";

export interface EmbeddedEtcdOptions {
  readonly data: DataDir;
  /** The server's; the member has the same. */
  readonly name: string;
  readonly settings: EmbeddedEtcdSettings;
  readonly clock: Clock;
  readonly log: Pick<Logger, "info" | "warn" | "error">;
  readonly everyMs?: number;
}

const EVERY_MS = 2_000;
const CERTIFICATES_EVERY_MS = 3_600_000;
/** A member that ends at once, again and again, is told of at the start instead of tried for ever. */
const START_ATTEMPTS = 5;
const TELL_EVERY_MS = 10_000;

interface Known {
  readonly endpoints: readonly string[];
}

/** What a server that joined knows before it first starts. */
export function keepKnown(places: EtcdPlaces, endpoints: readonly string[]): void {
  writeFileAtomic(places.known, `${JSON.stringify({ endpoints })}\n`);
}

export class EmbeddedEtcd implements MemberUrls {
  readonly #options: EmbeddedEtcdOptions;
  readonly #places: EtcdPlaces;
  readonly #members: MemberCalls;
  readonly #stop = new AbortController();
  readonly #listeners = new Set<(urls: readonly string[]) => void>();
  #urls: readonly string[];
  #kept: Promise<unknown> = Promise.resolve();
  #certificatesAt = Number.NEGATIVE_INFINITY;
  #told = "";

  private constructor(options: EmbeddedEtcdOptions, urls: readonly string[]) {
    this.#options = options;
    this.#places = etcdPlaces(options.data);
    this.#urls = urls;
    const { caFile, certFile, keyFile } = this.#places;
    const [ca, cert, key] = [caFile, certFile, keyFile].map((file) => readFileSync(file));
    this.#members = new MemberCalls(
      linksWith({
        tls: { ca: ca ?? "", cert: cert ?? "", key: key ?? "" },
        clock: options.clock,
      }),
    );
  }

  /** Ends when the store can be written; until then it says every ten seconds what it waits for. */
  static async open(options: EmbeddedEtcdOptions): Promise<EmbeddedEtcd> {
    const { name, settings, clock } = options;
    const places = etcdPlaces(options.data);
    const known = (readJsonFile(places.known) as Known | undefined)?.endpoints;
    if (known === undefined) await ensureAuthority(places, clock.now());
    await ensureCertificate(places, { name, address: settings.address }, clock.now());
    const own = clientUrl(settings);
    const others = (known ?? []).filter((url) => url !== own);
    const etcd = new EmbeddedEtcd(
      options,
      hasData(places) || known === undefined ? [own, ...others] : others,
    );
    if (known === undefined || hasData(places)) await etcd.#run([`${name}=${peerUrl(settings)}`], true);
    else if (others.length === 0)
      throw new AppError(
        "store.unavailable",
        `the data of etcd is gone (${places.data}), and no other member is known: restore a backup (gpvectl store restore) into a new cluster, or put the folder back`,
      );
    else await etcd.#look().catch((err: unknown) => etcd.#tell(err));
    await etcd.#answering();
    etcd.#save();
    etcd.#kept = etcd.#keep();
    background(options.log, "the member of etcd", etcd.#kept);
    return etcd;
  }

  get config(): StoreConfig & { readonly type: "etcd" } {
    const { caFile, certFile, keyFile } = this.#places;
    return { type: "etcd", endpoints: this.#urls, members: this, caFile, certFile, keyFile };
  }

  current(): readonly string[] {
    return this.#urls;
  }

  follow(listener: (urls: readonly string[]) => void): void {
    this.#listeners.add(listener);
  }

  /** For a further server, which makes its own certificate. */
  authority(): { readonly caPem: string; readonly caKeyPem: string } {
    const { caFile, caKeyFile } = this.#places;
    return { caPem: readFileSync(caFile, "utf8"), caKeyPem: readFileSync(caKeyFile, "utf8") };
  }

  /** The server stops; its member runs on. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#kept;
  }

  async #keep(): Promise<void> {
    const { clock, everyMs = EVERY_MS } = this.#options;
    await every(everyMs, { clock, signal: this.#stop.signal }, async () => {
      try {
        await this.#look();
        this.#told = "";
      } catch (err) {
        this.#tell(err);
      }
    });
  }

  #tell(err: unknown): void {
    const reason = messageOf(err);
    if (reason !== this.#told)
      this.#options.log.warn({ reason }, "the member of etcd cannot be looked after now");
    this.#told = reason;
  }

  async #look(): Promise<void> {
    const { name, settings, clock, log } = this.#options;
    const places = this.#places;
    if (clock.monotonic() - this.#certificatesAt > CERTIFICATES_EVERY_MS) {
      await ensureCertificate(places, { name, address: settings.address }, clock.now());
      this.#certificatesAt = clock.monotonic();
    }
    const runs = runningEtcd(places) !== undefined;
    const members = await this.#list(runs);
    if (members === undefined) return;
    const step = nextStep({
      name,
      peerUrl: peerUrl(settings),
      members,
      hasData: runs || hasData(places),
      runs,
    });
    switch (step.do) {
      case "nothing":
        if (!runs && hasData(places)) {
          log.warn({ member: name }, "the member of etcd had ended and is started again");
          await this.#run([], false);
        }
        return;
      case "stand-by":
        return;
      case "promote":
        if (await this.#members.promote(this.#urls, step.id))
          log.info({ member: name }, "this member of etcd votes now");
        return;
      case "set-aside": {
        const aside = `${places.data}.removed-${clock.now()}`;
        renameSync(places.data, aside);
        log.warn({ aside }, "this member was taken out of etcd; its data is put aside");
        return;
      }
      case "replace":
        await this.#replace(step.old);
        return;
      case "join": {
        const own = peerUrl(settings);
        const all = await this.#members.add(this.#urls, own);
        const initial = all.map(
          ({ name: each, peerUrls: [url = ""] }) => `${url === own ? name : each}=${url}`,
        );
        log.info({ member: name, members: all.length }, "this server becomes a member of etcd");
        await this.#run(initial, false);
      }
    }
  }

  /** Only one that does not answer: two servers of one name are a mistake of people. */
  async #replace(old: StoreMember): Promise<void> {
    const health = (await this.#members.health(this.#urls)).find(({ id }) => id === old.id);
    if (health === undefined) return;
    if (health.problem === undefined)
      throw new AppError(
        "object.exists",
        `a member of etcd named ${old.name} answers at ${old.clientUrls.join(", ")}: this server needs another name or address, or that one is to be stopped`,
      );
    await this.#members.remove(this.#urls, old.id);
    this.#options.log.warn({ member: old.name }, "the lost member of etcd that was here before is taken out");
  }

  /** undefined: nobody answers, and our own member had to be started. */
  async #list(runs: boolean): Promise<readonly StoreMember[] | undefined> {
    try {
      const members = await this.#members.list(this.#urls);
      this.#use(members.filter(({ isLearner }) => !isLearner).flatMap(({ clientUrls }) => clientUrls));
      return members;
    } catch (err) {
      if (runs || !hasData(this.#places)) throw err;
      await this.#run([], false);
      return undefined;
    }
  }

  #use(urls: readonly string[]): void {
    const own = clientUrl(this.#options.settings);
    // The member of this machine first; the others are for when it is away.
    const next = [...urls.filter((url) => url === own), ...urls.filter((url) => url !== own).toSorted()];
    if (next.length === 0 || next.join(" ") === this.#urls.join(" ")) return;
    this.#urls = next;
    this.#save();
    for (const listener of this.#listeners) listener(next);
  }

  #save(): void {
    keepKnown(this.#places, this.#urls);
  }

  async #run(initial: readonly string[], isNew: boolean): Promise<void> {
    const { name, settings } = this.#options;
    await startEtcd(this.#places, { name, settings, initial, isNew });
  }

  async #answering(): Promise<void> {
    const { clock, log, name, settings } = this.#options;
    const store = await openStore(this.config, { clock });
    let starts = 1;
    let toldAt = clock.monotonic();
    try {
      for (;;) {
        try {
          await store.revision();
          return;
        } catch (err) {
          if (clock.monotonic() - toldAt >= TELL_EVERY_MS) {
            toldAt = clock.monotonic();
            log.warn({ reason: messageOf(err) }, "waits for enough members of etcd to answer");
          }
        }
        if (runningEtcd(this.#places) === undefined && hasOwn(this.#urls, settings)) {
          if (starts >= START_ATTEMPTS)
            throw new AppError(
              "store.unavailable",
              `etcd of ${name} does not stay up; ${lastWordsOfEtcd(this.#places)}`,
            );
          starts += 1;
          await this.#run([`${name}=${peerUrl(settings)}`], true);
        }
        await clock.sleep(200);
      }
    } finally {
      await store.close();
    }
  }
}

function hasOwn(urls: readonly string[], settings: EmbeddedEtcdSettings): boolean {
  return urls.includes(clientUrl(settings));
}

function hasData(places: EtcdPlaces): boolean {
  return existsSync(join(places.data, "member"));
}
