// Devices of the host that are handed to guests.

export interface HostDevices {
  /** Takes devices away from the host for a guest. Returns the files through which the guest reaches them. */
  takePci(addresses: readonly string[]): Promise<readonly string[]>;
  /** Makes a mediated device on the first parent that has room for it. Returns the file to reach it. */
  makeMdev(parents: readonly string[], uuid: string, type: string): Promise<string>;
  /** One that is not there is no error. */
  removeMdev(uuid: string): Promise<void>;
  /** As serial and parallel ports are. */
  isCharacterDevice(path: string): boolean;
  /** What a device that speaks SCSI says it is; tapes are reached through /dev/sgN. */
  scsiKind(path: string): "disk" | "tape" | undefined;
  /** Device files of what a USB address ("046d:c52b", "1-2.3") means now; none = not plugged in. */
  usbFiles(address: string): readonly string[];
}
