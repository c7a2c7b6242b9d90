// What a new VM lacks, and the command that gives it: nobody has to find out by starting it.

const DRIVE = /^(?:scsi|virtio|sata|ide)\d+$/;
const CD = /media=cdrom/;
/** `STORAGE:GIB`: a volume that is made for it, with nothing on it. */
const NEW_DISK = /^[^:,]+:\d+(?:\.\d+)?(?:,(?!.*import-from=)|$)/;

/** Remarks for people. A VM may well be meant to be bare. */
export function missingParts(vmid: number, settings: Readonly<Record<string, unknown>>): readonly string[] {
  const has = (key: RegExp, value = /./): boolean =>
    Object.entries(settings).some(([name, text]) => key.test(name) && value.test(String(text)));
  const hasDisk = has(DRIVE, /^(?!.*(?:media=cdrom|cloudinit))/);
  const hasCard = has(/^net\d+$/);
  const remarks: string[] = [];
  if (!hasDisk && !has(DRIVE, CD)) {
    remarks.push(
      `It has no disk and no CD: gpvectl vm set ${vmid} scsi0=local:10 ide2=local:iso/NAME.iso,media=cdrom. One that boots at once: gpvectl vm create --image tiny --console.`,
    );
  } else if (has(DRIVE, NEW_DISK) && !has(DRIVE, /import-from=/) && !has(DRIVE, CD)) {
    remarks.push(
      `Its disk is empty, and there is no CD to install from: gpvectl vm set ${vmid} ide2=local:iso/NAME.iso,media=cdrom.`,
    );
  }
  if (!hasCard) remarks.push(`It has no network card: gpvectl vm set ${vmid} net0=virtio,bridge=vmbr0.`);
  return remarks;
}
