// The members of an etcd cluster: who they are, how they do, and how one comes in or goes.
import { createClient } from "@connectrpc/connect";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import { Cluster, Maintenance, type Member } from "../gen/proto/etcdserverpb/rpc_pb.ts";
import { Endpoints } from "./endpoints.ts";
import { type Link, type TlsFiles, linkTo } from "./link.ts";
import type { EtcdUser } from "./token-auth.ts";

export interface StoreMember {
  readonly id: bigint;
  /** Empty until it has started for the first time. */
  readonly name: string;
  readonly peerUrls: readonly string[];
  readonly clientUrls: readonly string[];
  /** It follows, and does not vote yet. */
  readonly isLearner: boolean;
}

export interface MemberHealth extends StoreMember {
  readonly isLeader: boolean;
  /** Why it does not serve; undefined when it does. */
  readonly problem: string | undefined;
  readonly version: string | undefined;
  readonly bytes: number | undefined;
}

export interface EtcdMembersOptions {
  readonly link: (url: string) => Link;
  readonly clock?: Clock;
}

const ATTEMPT_MS = 3_000;
const DEADLINE_MS = 8_000;

export function linksWith(options: {
  readonly tls: TlsFiles;
  readonly user?: EtcdUser | undefined;
  readonly clock?: Clock;
}): EtcdMembersOptions {
  const { tls, user, clock = systemClock } = options;
  return { clock, link: (url) => linkTo(url, { tls, user, clock }) };
}

/** Asks through the given members; each call stands for itself. */
export class MemberCalls {
  readonly #options: EtcdMembersOptions;
  readonly #clock: Clock;

  constructor(options: EtcdMembersOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  async list(urls: readonly string[]): Promise<readonly StoreMember[]> {
    return this.#at(urls, "a list of members", "repeat", async ({ cluster }, call) =>
      (await cluster.memberList({}, call)).members.map(memberOf),
    );
  }

  /** As a learner, which has no vote before it has caught up: the others lose nothing by it. */
  async add(urls: readonly string[], peerUrl: string): Promise<readonly StoreMember[]> {
    return this.#at(urls, "a new member", "tell", async ({ cluster }, call) =>
      (await cluster.memberAdd({ peerUrls: [peerUrl], isLearner: true }, call)).members.map(memberOf),
    );
  }

  /** False while it has not caught up. */
  async promote(urls: readonly string[], id: bigint): Promise<boolean> {
    try {
      await this.#at(urls, "a promotion", "repeat", ({ cluster }, call) =>
        cluster.memberPromote({ id }, call),
      );
      return true;
    } catch (err) {
      if (isAppError(err, "request.invalid") && err.message.includes("learner")) return false;
      throw err;
    }
  }

  async remove(urls: readonly string[], id: bigint): Promise<void> {
    await this.#at(urls, "the removal of a member", "repeat", ({ cluster }, call) =>
      cluster.memberRemove({ id }, call),
    );
  }

  /** Every member, and what each says of itself. */
  async health(urls: readonly string[]): Promise<readonly MemberHealth[]> {
    const members = await this.list(urls);
    return Promise.all(members.map((member) => this.#healthOf(member)));
  }

  async #healthOf(member: StoreMember): Promise<MemberHealth> {
    const away = { ...member, isLeader: false, version: undefined, bytes: undefined };
    if (member.clientUrls.length === 0) return { ...away, problem: "has not started yet" };
    try {
      const status = await this.#at(
        member.clientUrls,
        "its state",
        "repeat",
        ({ maintenance }, call) => maintenance.status({}, call),
        ATTEMPT_MS,
      );
      const [said] = status.errors;
      return {
        ...member,
        isLeader: status.leader === member.id,
        problem: status.leader === 0n ? "has no leader: too few members answer" : said,
        version: status.version,
        bytes: Number(status.dbSize),
      };
    } catch (err) {
      return { ...away, problem: messageOf(err) };
    }
  }

  async #at<T>(
    urls: readonly string[],
    what: string,
    lost: "repeat" | "tell",
    run: (clients: Clients, call: { readonly timeoutMs: number; readonly signal: AbortSignal }) => Promise<T>,
    deadlineMs = DEADLINE_MS,
  ): Promise<T> {
    if (urls.length === 0) throw new AppError("config.invalid", "no etcd endpoint is given");
    const endpoints = new Endpoints({
      links: urls.map((url) => this.#options.link(url)),
      clock: this.#clock,
      attemptMs: ATTEMPT_MS,
      deadlineMs,
    });
    try {
      return await endpoints.call(what, { lost }, ({ link }, { timeoutMs, signal }) => {
        const transport = link.transport();
        const clients = {
          cluster: createClient(Cluster, transport),
          maintenance: createClient(Maintenance, transport),
        };
        return run(clients, { timeoutMs: Math.ceil(timeoutMs), signal });
      });
    } finally {
      endpoints.close();
    }
  }
}

interface Clients {
  readonly cluster: ReturnType<typeof createClient<typeof Cluster>>;
  readonly maintenance: ReturnType<typeof createClient<typeof Maintenance>>;
}

function memberOf({ id, name, peerUrls, clientUrls, isLearner }: Member): StoreMember {
  return { id, name, peerUrls, clientUrls, isLearner };
}
