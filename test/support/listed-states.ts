// What lists say of a guest in the moment a client sees its task end.
import type { Api } from "./gpve.ts";

export interface ListedRound {
  readonly action: string;
  readonly exitstatus: string | undefined;
  /** By GET /nodes/{node}/qemu and by GET /cluster/resources. */
  readonly listed: readonly (string | undefined)[];
}

/** Runs an action of a guest, waits for its task as impatiently as one can, and reads the lists at once. */
export async function listedAfter(
  api: Api,
  { node, vmid }: { readonly node: string; readonly vmid: number },
  action: string,
): Promise<ListedRound> {
  const upid = (await api("POST", `/nodes/${node}/qemu/${vmid}/status/${action}`)).data as string;
  const task = `/nodes/${node}/tasks/${encodeURIComponent(upid)}/status`;
  for (;;) {
    const { status, exitstatus } = (await api("GET", task)).data as { status: string; exitstatus?: string };
    if (status !== "stopped") continue;
    const lists = await Promise.all([
      api("GET", `/nodes/${node}/qemu`),
      api("GET", "/cluster/resources", { type: "vm" }),
    ]);
    const listed = lists.map(
      ({ data }) => (data as { vmid: number; status: string }[]).find((row) => row.vmid === vmid)?.status,
    );
    return { action, exitstatus, listed };
  }
}

/** Starts and stops a stopped guest again and again; gives the rounds whose lists were not what the task had done. */
export async function staleRounds(
  api: Api,
  guest: { readonly node: string; readonly vmid: number },
  times: number,
): Promise<readonly ListedRound[]> {
  const stale: ListedRound[] = [];
  for (let at = 0; at < times * 2; at++) {
    const action = at % 2 === 0 ? "start" : "stop";
    const round = await listedAfter(api, guest, action);
    const wanted = action === "start" ? "running" : "stopped";
    if (round.exitstatus !== "OK" || round.listed.some((status) => status !== wanted)) stale.push(round);
  }
  return stale;
}
