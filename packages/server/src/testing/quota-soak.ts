// Many requests of three tenants at several servers at once, on any store: never over, exact at the end.
import { isAppError } from "@gpve/contracts/errors.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { GRACE_MS } from "@gpve/domain/quota/reservation.ts";
import type { Quota } from "@gpve/domain/quota/quota.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import type { Store } from "@gpve/store/port.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { reservationsDef } from "../application/quota/quota-records.ts";
import { existing, openQuotaServer, openReservations, putTenants, SlowNode } from "./quota-world.ts";

const GIB = 1024 ** 3;
/** Every guest has 2 cores and a disk of 1 GiB. `a/b` also counts in `a`. */
const POOLS = ["a", "a/b", "c"];

export interface SoakOptions {
  /** Of each server. */
  readonly stores: readonly Store[];
  readonly requests: number;
  readonly random: () => number;
  /** Once, in the middle of it. */
  readonly disturb?: () => Promise<void>;
}

export interface SoakResult {
  readonly made: number;
  readonly refused: number;
  /** The most that was ever there of each tenant, in vmCount. */
  readonly peaks: Readonly<Record<string, number>>;
  readonly hard: Readonly<Record<string, number>>;
  /** vmCount by the records at the end, and by what the ledger says then. */
  readonly exact: Readonly<Record<string, readonly [records: number, ledger: number]>>;
  readonly left: number;
}

export async function soakQuotas({ stores, requests, random, disturb }: SoakOptions): Promise<SoakResult> {
  const [first] = stores;
  if (first === undefined) throw new Error("no store");
  let ahead = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + ahead };
  const nodeRecords = await openRecords(first, { prefix: "/gpve/", log: silentLogger });
  // Odd, so that two who both believe that there is room are one too many.
  const share = (part: number): number => 2 * Math.ceil(requests / part / 2) + 1;
  const hard = { a: share(5), "a/b": share(8), c: share(6) };
  const quota = (tenant: keyof typeof hard): Quota => ({
    name: tenant,
    tenant,
    limits: { vmCount: hard[tenant], cpu: 2 * hard[tenant], storage: hard[tenant] * GIB },
    requests: {},
  });
  await putTenants(nodeRecords, [quota("a"), quota("a/b"), quota("c")], POOLS);
  await nodeRecords.transact((tx) => tx.put(guestCollection, "9000", templateOf(9000)));
  const node = new SlowNode(nodeRecords, random);
  const servers = await Promise.all(
    stores.map((store, index) => openQuotaServer(store, { owner: `s${index}`, clock, node })),
  );
  const peaks: Record<string, number> = {};
  const stopLooking = nodeRecords.collection(guestCollection).onChange(() => {
    for (const pool of POOLS)
      peaks[pool] = Math.max(peaks[pool] ?? 0, existing(nodeRecords, pool).vmCount ?? 0);
  });
  let [made, refused] = [0, 0];
  const one = async (index: number): Promise<void> => {
    await systemClock.sleep(random() * requests);
    const server = servers[index % servers.length];
    const pool = POOLS[index % POOLS.length] ?? "";
    const newid = 10_000 + index;
    const way = index % 3;
    try {
      if (way === 0)
        await server?.call(
          "POST /nodes/{node}/qemu",
          { vmid: newid, pool, cores: 2, memory: "256", scsi0: "local:1" },
          `q${index}`,
        );
      else if (way === 1)
        await server?.call("POST /nodes/{node}/qemu/{vmid}/clone", { vmid: 9000, newid, pool }, `q${index}`);
      else
        await server?.call(
          "POST /gpve/nodes/{node}/virtual-machines",
          { vmid: newid, pool, config: { cores: "2", memory: "256", scsi0: "local:1" } },
          `q${index}`,
        );
      made++;
    } catch (err) {
      if (isAppError(err, "capacity.exceeded")) refused++;
    }
  };
  const all = Array.from({ length: requests }, (_, index) => one(index));
  if (disturb !== undefined) await disturb();
  await Promise.all(all);
  await node.idle();
  ahead = 2 * GRACE_MS;
  await Promise.all(servers.map(({ records }) => records.fresh()));
  for (const { quotas, records } of servers)
    await quotas.ledger.settle(
      records
        .collection(reservationsDef)
        .list()
        .map(({ id }) => id),
    );
  await nodeRecords.fresh();
  const exact = Object.fromEntries(
    POOLS.map((pool) => {
      const ledger = servers[0]?.quotas.view.members(pool).length ?? 0;
      return [pool, [existing(nodeRecords, pool).vmCount ?? 0, ledger] as const];
    }),
  );
  stopLooking();
  const left = openReservations(nodeRecords);
  await Promise.all(servers.map((server) => server.close()));
  await nodeRecords.close();
  return { made, refused, peaks, hard, exact, left };
}

function templateOf(vmid: number) {
  return {
    vmid,
    type: "qemu",
    node: "n1",
    fence: 0,
    conf: `template: 1\ncores: 2\nmemory: 256\nscsi0: local:${vmid}/base-${vmid}-disk-0.raw,size=1G\n`,
  } as never;
}
