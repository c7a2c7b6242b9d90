import { basename } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import type { GuestStart } from "@gpve/domain/guest/guest-processes.ts";
import type { QemuStart } from "@gpve/domain/vm/qemu-processes.ts";
import { MINIMAL_ENV } from "@gpve/kit/exec.ts";
import type { SupervisorSpec } from "../supervisor/spec-file.ts";
import type { GuestFolder } from "./guest-folder.ts";
import { guestView, kvmGroups } from "./guest-view.ts";
import { handOverSockets } from "./hand-over-sockets.ts";
import { GUESTS_GROUP } from "./shared-files.ts";

export interface StartPlace {
  /** undefined = not root: the guest is who we are. */
  readonly uid: number | undefined;
  /** Not root, but in a user namespace of its own it may have mounts and a network of its own. */
  readonly userNamespace?: boolean;
  readonly cgroupFiles: readonly string[];
  readonly holdFiles: readonly string[];
  /** Of its deadline. */
  readonly guardFile?: string | undefined;
}

/** What the supervisor can give any program; that only QEMU gets taps is for their ports to say. */
export interface SpecStart extends GuestStart {
  readonly taps?: QemuStart["taps"];
  readonly vhost?: QemuStart["vhost"];
}

/** Everything the supervisor must know to start this guest. */
export function specOf(start: SpecStart, folder: GuestFolder, place: StartPlace): SupervisorSpec {
  const kvm = start.needsKvm ?? false;
  const view = guestView(start.program, start.files, { ioFolder: folder.io, kvm });
  const { args, sockets } = handOverSockets(start.args, folder);
  return {
    program: start.program,
    args: [basename(start.program), ...args],
    env: start.env ?? { ...MINIMAL_ENV, HOME: "/", TMPDIR: "/tmp" },
    stateFile: folder.file("state"),
    exitFile: folder.file("exit"),
    logFile: folder.file("log"),
    controlSocket: folder.socket("control"),
    ...given({ guardFile: place.guardFile }),
    holdFiles: place.holdFiles,
    cgroupFiles: place.cgroupFiles,
    limits:
      place.uid === undefined
        ? { core: "0" }
        : {
            core: "0",
            nofile: "1048576",
            ...given({ memlock: start.memlock }),
          },
    ...given({ affinity: start.affinity, oomScoreAdj: start.oomScoreAdj, workFolder: start.workFolder }),
    ...(start.asHost === true
      ? { tmpfs: [], binds: [], links: [], asHost: true, ...given({ network: start.network }) }
      : place.uid === undefined && place.userNamespace !== true
        ? { tmpfs: [], binds: [], links: [] }
        : {
            root: folder.root,
            ownPids: true,
            ownNetwork: start.hostNetwork !== true && start.network === undefined,
            ...given({ network: start.network }),
            ...(place.uid === undefined
              ? { userNamespace: true }
              : {
                  identity: {
                    uid: place.uid,
                    gid: place.uid,
                    groups: [GUESTS_GROUP, ...(kvm ? kvmGroups() : [])],
                  },
                }),
            ...view,
            ...(start.asRoot === true ? { tmpfs: [...view.tmpfs, { path: "/proc", size: "64k" }] } : {}),
          }),
    taps: (start.taps ?? []).map(({ name, bridge, mtu = 0, queues = 1, firstFd }) => ({
      name,
      bridge,
      mtu,
      queues,
      firstFd,
    })),
    ...given({ vhost: start.vhost }),
    sockets: [
      ...sockets,
      ...(start.sockets ?? []).map(({ name, fd }) => ({ path: folder.socket(name), fd })),
    ],
    openFiles: [],
  };
}
