import { given } from "@gpve/contracts/given.ts";
import type { GpveClient } from "@gpve/client/client.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { STRATEGY_NAMES } from "@gpve/contracts/v1/scheduling.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { type Input, wholeNumber } from "../../input.ts";
import { passwordStdinOption } from "../../secret-input.ts";
import { readParameters } from "../api/parameters.ts";
import { openConsole } from "./console/console.ts";
import type { VmPlace } from "./find-vm.ts";
import { whileDoing } from "../../while-doing.ts";
import { serverDefaults } from "./server-defaults.ts";
import { AUTO, chooseNode } from "./choose-node.ts";
import { imageSource } from "./image-source.ts";
import { missingParts } from "./missing-parts.ts";
import { emptyGuest, guestFromImage } from "./new-guest.ts";

export const vmCreate: CommandSpec = {
  name: "vm create",
  summary: "create a virtual machine",
  details:
    "Without a VMID the next free one is taken, without --node the only node there is, or in a cluster the one that the scheduler finds (see `explain`). With --image the VM boots from a copy of that image and has a serial port, a network card on vmbr0 and, where the image reads one, a cloud-init drive. An image by name (see `image list`) that is not on the node yet is built there, if it can be; a file of this machine is uploaded; an address is downloaded by the node.",
  arguments: [{ name: "[settings...]", about: "further Proxmox settings, key=value" }],
  options: [
    { flags: "--image <image>", about: "boot from a copy of debian12, tiny, …, a file, a URL or a volume" },
    { flags: "--vmid <number>", about: "its VMID", parse: wholeNumber(100, 999_999_999) },
    { flags: "--node <name>", about: "where; auto: where the scheduler finds room" },
    {
      flags: "--strategy <name>",
      about: "how it finds one",
      choices: STRATEGY_NAMES,
    },
    { flags: "--name <name>", about: "its name" },
    { flags: "--cores <count>", about: "CPU cores (1)", parse: wholeNumber(1) },
    { flags: "--memory <MiB>", about: "memory in MiB (1024)", parse: wholeNumber(16) },
    {
      flags: "--disk <GiB>",
      about: "a new disk of this size; with --image: grow the copy to it",
      parse: wholeNumber(1),
    },
    {
      flags: "--storage <name>",
      about: "where the disk goes (storage.defaults.vmDisk of the server, local)",
    },
    {
      flags: "--image-storage <name>",
      about: "where images are kept (storage.defaults.iso of the server, local)",
    },
    {
      flags: "--bridge <name>",
      about:
        "a network card on this bridge (with --image: the node's default bridge, or vmbr0; `none` for no card)",
    },
    { flags: "--ssh-key <key>", about: "public key, or file with it, that opens the guest", many: true },
    { flags: "--user <name>", about: "with --image: the user that cloud-init makes" },
    passwordStdinOption,
    { flags: "--iso <volume>", about: "CD to boot from, such as local:iso/debian.iso" },
    { flags: "--pool <name>", about: "pool it belongs to" },
    { flags: "--start", about: "start it when it is made" },
    { flags: "--console", about: "start it and open its console" },
    noWaitOption,
  ],
  examples: [
    "vm create --image tiny --name demo --console",
    "vm create --image debian12 --name web --disk 20 --ssh-key id_ed25519.pub --start",
    "vm create --image https://example.org/appliance.qcow2 --name appliance",
    "vm create --name web --cores 2 --memory 2048 --disk 20 --iso local:iso/debian.iso --start",
    "vm create --vmid 200 ostype=l26 serial0=socket",
  ],
  doing: (input) => `create VM ${input.text("name") ?? String(input.number("vmid") ?? "")}`.trim(),
  run: async (cli, input) => {
    refuseWhatCannotBe(input);
    const settings = await readParameters(cli, input.args("settings"));
    const client = await cli.client();
    const vmid = input.number("vmid") ?? Number(await client.pve.get("/cluster/nextid"));
    const node = await chooseNode(client, input, { vmid, settings });
    const defaults = await serverDefaults(client, node);
    const storage = input.text("storage") ?? defaults.vmDisk;
    const wanted = input.text("image");
    const image =
      wanted === undefined
        ? undefined
        : await imageSource(cli, wanted, { node, storage: input.text("imageStorage") ?? defaults.iso });
    const parts =
      image === undefined
        ? await emptyGuest(cli, input, { node, storage, bridge: defaults.bridge })
        : await guestFromImage(cli, input, { image, node, storage, bridge: defaults.bridge });
    const iso = input.text("iso");
    // Proxmox starts a new VM in a task of its own, whose end nobody would wait for.
    const goesOn = input.flag("wait");
    const params = {
      node,
      vmid,
      cores: input.number("cores") ?? 1,
      memory: input.number("memory") ?? 1024,
      ...given({ name: input.text("name"), pool: input.text("pool") }),
      ...parts,
      ...(iso === undefined
        ? {}
        : { ide2: `${iso.includes(":") ? iso : `${defaults.iso}:iso/${iso}`},media=cdrom` }),
      ...(input.flag("start") && !goesOn ? { start: true } : {}),
      ...settings,
    };
    const { data } = await client.pve.call("POST", "/nodes/{node}/qemu", params);
    const name = input.text("name");
    const called = name === undefined ? "" : ` (${name})`;
    await finishWork(cli, input, data, `Created VM ${vmid}${called} on ${node}.`, { isPart: true });
    if (goesOn) {
      for (const remark of missingParts(vmid, params)) cli.out.note(remark);
      await goOn(cli, input, client, { vmid, node });
    }
    if (!cli.out.forPeople && input.flag("wait")) cli.out.data({ vmid, node });
  },
};

/** What can only be done once the VM is there. */
async function goOn(cli: Cli, input: Input, client: GpveClient, place: VmPlace): Promise<void> {
  const made = `VM ${place.vmid}, which was created`;
  const size = growTo(input);
  if (size !== undefined) {
    await whileDoing(`grow the disk of ${made}`, async () => {
      const answer = await client.pve.put("/nodes/{node}/qemu/{vmid}/resize", {
        ...place,
        disk: "scsi0",
        size: `${size}G`,
      });
      await finishWork(cli, input, answer, `Its disk has ${size} GiB.`, { isPart: true });
    });
  }
  if (!input.flag("start") && !input.flag("console")) {
    cli.out.note(`Start it: gpvectl vm start ${place.vmid}.`);
    return;
  }
  await whileDoing(`start ${made}`, async () => {
    const started = await client.pve.post("/nodes/{node}/qemu/{vmid}/status/start", { ...place });
    await finishWork(cli, input, started, `Started VM ${place.vmid}.`, { isPart: true });
  });
  if (input.flag("console"))
    await whileDoing(`open the console of ${made}`, () => openConsole(cli, client, place));
}

function growTo(input: Input): number | undefined {
  return input.text("image") === undefined ? undefined : input.number("disk");
}

function refuseWhatCannotBe(input: Input): void {
  const named = input.text("node");
  if (input.text("strategy") !== undefined && named !== undefined && named !== AUTO)
    throw new AppError("request.invalid", `--strategy looks for a node: leave out --node ${named}`);
  const waits = input.flag("wait");
  if (!waits && (input.flag("console") || growTo(input) !== undefined)) {
    const why = input.flag("console") ? "--console" : "--disk with --image";
    throw new AppError("request.invalid", `${why} comes after the VM is made: leave out --no-wait`);
  }
  const needsImage = ["user", "imageStorage"].find((name) => input.text(name) !== undefined);
  if (input.text("image") !== undefined) return;
  if (needsImage !== undefined || input.texts("sshKey").length > 0 || input.flag("passwordStdin")) {
    throw new AppError("request.invalid", "users, keys and passwords are for guests made with --image");
  }
}
