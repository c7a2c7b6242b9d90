// A VM becomes a template: its disks become images that clones build upon and nobody writes to any more.
import { conflict } from "@gpve/domain/request/failures.ts";
import { formatVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { isCdrom, listDisks, printDrive, requireDrive } from "@gpve/domain/vm/config/drive.ts";
import { checkLock, isTemplate } from "@gpve/domain/guest/guest-lock.ts";
import { keepNumberText } from "@gpve/domain/vm/config/number-text.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import { runningVm } from "../running-vm.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";

export interface MakeTemplatePorts {
  readonly configs: VmConfigs;
  readonly processes: QemuProcesses;
  readonly storages: GuestStorages;
}

export interface TemplateArgs {
  readonly vmid: number;
  /** Only this disk becomes a base image. */
  readonly disk?: string;
}

/** What PVE finds before it forks. */
export function checkTemplatePossible(host: MakeTemplatePorts, { vmid, disk }: TemplateArgs): void {
  const config = host.configs.get(vmid);
  checkLock(config);
  if (Object.keys(config.snapshots).length > 0)
    throw conflict("unable to create template, because VM contains snapshots");
  if (isTemplate(config) && disk === undefined) throw conflict("you can't convert a template to a template");
  if (runningVm(host, vmid) !== undefined)
    throw conflict("you can't convert a VM to template if VM is running");
  for (const { file } of chosen(config, disk)) {
    const { plugin, volname } = volumeOf(host, file);
    if (!plugin.parse(volname).isBase && !plugin.has("template", volname))
      throw conflict(`volume '${file}' does not support template/clone`);
  }
}

export function makeTemplateOperation(host: MakeTemplatePorts): OperationDefinition<TemplateArgs> {
  return {
    type: "qmtemplate",
    // There is no way from a base image back: go on where it was.
    onCrash: "resume",
    steps: [
      {
        name: "template",
        run: async ({ args, log, signal }) => {
          const { vmid, disk } = args;
          if (!isTemplate(host.configs.get(vmid))) checkTemplatePossible(host, args);
          await host.configs.change(vmid, (config) => ({
            ...config,
            values: { ...config.values, template: "1" },
          }));
          await convertDisks(host, vmid, disk, { log, signal });
        },
      },
    ],
  };
}

/** Each disk becomes a base image, and the configuration names it. */
export async function convertDisks(
  host: MakeTemplatePorts,
  vmid: number,
  disk: string | undefined,
  { log, signal }: { readonly log: (line: string) => void; readonly signal: AbortSignal },
): Promise<void> {
  for (const { key, file } of chosen(host.configs.get(vmid), disk)) {
    const { plugin, volname, storage } = volumeOf(host, file);
    if (plugin.parse(volname).isBase) continue;
    await plugin.activate();
    // Renamed, but not yet written down: a crash may have come in between.
    const done = (await plugin.list({ content: ["images"], vmid })).find(
      (each) => each.volname === baseOf(volname),
    );
    const base = done?.volname ?? (await plugin.createBase(volname, { signal, log }));
    const volid = formatVolumeId({ storage, volname: base });
    await host.configs.change(vmid, (config) => {
      const text = config.values[key] ?? "";
      const based = keepNumberText(text, printDrive(key, { ...requireDrive(key, text), file: volid }));
      return { ...config, values: { ...config.values, [key]: based } };
    });
  }
}

function baseOf(volname: string): string {
  return volname.replace(/(^|\/)vm-([^/]+)$/, "$1base-$2");
}

function chosen(config: VmConfig, disk: string | undefined): { key: string; file: string }[] {
  return listDisks(config.values)
    .filter(({ key, drive }) => (disk === undefined || key === disk) && !isCdrom(drive))
    .map(({ key, drive }) => ({ key, file: drive.file }));
}
