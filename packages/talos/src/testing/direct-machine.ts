// A machine's API without a network: what a client would get, from the same state that the stand-in serves. For tests
// that need thousands of calls; what is on the wire is tested with the stand-in.
import { Code, ConnectError } from "@connectrpc/connect";
import { RESET_LABELS, type TalosMachine } from "../client/talos-client.ts";
import { talosError } from "../client/talos-error.ts";
import { hasLifecycle } from "../engine/versions.ts";
import type { MachineState } from "./stand-in/machine-state.ts";

export function directMachine(machine: MachineState, isMember: boolean): TalosMachine {
  const call = async <T>(doing: string, work: () => T): Promise<T> => {
    try {
      if (!machine.isOn) throw new ConnectError("no route to host", Code.Unavailable);
      const isKnown = machine.config !== undefined;
      if (isMember !== isKnown) throw new ConnectError("bad certificate", Code.Unauthenticated);
      return work();
    } catch (err) {
      throw talosError(err, doing, machine.hostname);
    }
  };
  const boot = (): void => machine.boot();
  return {
    close: () => undefined,
    version: () => call("version", () => ({ tag: machine.version, platform: "nocloud" })),
    apply: (text, mode, isDryRun) =>
      call("apply", () => {
        const modes = { reboot: 0, auto: 1, "no-reboot": 2, staged: 3 } as const;
        if (machine.apply(text, isDryRun === true, modes[mode])) boot();
        return [];
      }),
    machineConfig: () => call("config", () => machine.config?.text ?? ""),
    bootstrap: (recover) => call("bootstrap", () => machine.bootstrap(recover)),
    etcdRecover: (bytes) => call("recover", () => machine.recover(Buffer.from(bytes))),
    members: () =>
      call("members", () => machine.member().members.map((each) => ({ ...each, id: String(each.id) }))),
    etcdStatus: () =>
      call("status", () => {
        const { memberId, leader, errors } = machine.memberStatus();
        return { id: String(memberId), leader: String(leader), errors };
      }),
    etcdAlarms: () =>
      call("alarms", () => {
        const { members, alarms } = machine.member();
        return members.flatMap(({ id, hostname }) =>
          alarms.has(hostname) ? [{ id: String(id), alarm: "no space" }] : [],
        );
      }),
    serviceState: (id) => call("services", () => (id === "etcd" ? machine.etcdService : "Running")),
    removeMember: (id) => call("remove", () => machine.member().remove(BigInt(id))),
    leaveEtcd: () => call("leave", () => machine.leaveEtcd()),
    etcdSnapshot: () => call("snapshot", () => machine.snapshot()),
    kubeconfig: () => call("kubeconfig", () => "kind: Config\n"),
    bootId: () => call("boot id", () => machine.bootId),
    reboot: () => call("reboot", boot),
    reset: (isGraceful) =>
      call("reset", () => {
        machine.reset(isGraceful, RESET_LABELS);
        boot();
      }),
    shutdown: () => call("shutdown", () => machine.shutdown()),
    pull: (image) =>
      call("pull", () => {
        if (!hasLifecycle(machine.version)) throw new ConnectError("unknown service", Code.Unimplemented);
        return machine.pull(image);
      }),
    upgrade: (image) =>
      call("upgrade", () => {
        if (!hasLifecycle(machine.version)) {
          machine.upgradeAtOnce(image);
          boot();
          return true;
        }
        const exit = machine.upgrade(machine.pull(image));
        if (exit !== 0) throw new ConnectError(`the installer failed with exit code ${exit}`, Code.Internal);
        return false;
      }),
    resource: (namespace, type, id) =>
      call("resource", () => machine.resources()[`${namespace}/${type}/${id}`]),
    resources: (namespace, type) =>
      call("resources", () => {
        const prefix = `${namespace}/${type}/`;
        const found = Object.entries(machine.resources()).filter(([name]) => name.startsWith(prefix));
        return new Map(found.map(([name, value]) => [name.slice(prefix.length), value]));
      }),
  };
}
