// QEMU's three monitors: commands, events, and one for the supervisor, which passes descriptors of new network cards so
// that the first two need no SCM_RIGHTS. Whoever starts QEMU opens them: it cannot replace them.
import type { GuestPlace } from "../../../guest/guest-processes.ts";
import { escapeComma } from "../text/option-text.ts";

export interface MonitorPaths {
  readonly qmp: string;
  readonly qmpEvents: string;
  readonly qmpDescriptors: string;
}

export function monitorPaths(place: Pick<GuestPlace, "socketPath">): MonitorPaths {
  return {
    qmp: place.socketPath("qmp"),
    qmpEvents: place.socketPath("qmp-event"),
    qmpDescriptors: place.socketPath("qmp-fd"),
  };
}

export function monitorArguments({ qmp, qmpEvents, qmpDescriptors }: MonitorPaths): string[] {
  const monitors = { qmp, "qmp-event": qmpEvents, "qmp-fd": qmpDescriptors };
  return Object.entries(monitors).flatMap(([id, path]) => [
    "-chardev",
    `socket,id=${id},path=${escapeComma(path)},server=on,wait=off`,
    "-mon",
    `chardev=${id},mode=control`,
  ]);
}
