/** Formats a time as the API's MicroTime: UTC with six decimal places of a second, the last three of which are zero. */
export const microTime = (time: Date): string => time.toISOString().replace('Z', '000Z');
