//! ARK4(3)6L[2]SA, the implicit part: Kennedy and Carpenter, "Additive Runge-Kutta schemes for
//! convection-diffusion-reaction equations" (2003), appendix C.

/// Stages, the first of them explicit.
pub(super) const STAGES: usize = 6;

/// The diagonal of all other stages.
pub(super) const DIAGONAL: f64 = 0.25;

/// Below the diagonal; the last row is what the step adds up, so that the last stage is the result.
pub(super) const LOWER: [[f64; STAGES - 1]; STAGES] = [
    [0.0; 5],
    [0.25, 0.0, 0.0, 0.0, 0.0],
    [8611.0 / 62_500.0, -1743.0 / 31_250.0, 0.0, 0.0, 0.0],
    [
        5_012_029.0 / 34_652_500.0,
        -654_441.0 / 2_922_500.0,
        174_375.0 / 388_108.0,
        0.0,
        0.0,
    ],
    [
        15_267_082_809.0 / 155_376_265_600.0,
        -71_443_401.0 / 120_774_400.0,
        730_878_875.0 / 902_184_768.0,
        2_285_395.0 / 8_070_912.0,
        0.0,
    ],
    [
        82_889.0 / 524_892.0,
        0.0,
        15_625.0 / 83_664.0,
        69_875.0 / 102_672.0,
        -2260.0 / 8211.0,
    ],
];

/// What the embedded solution of third order adds up.
pub(super) const EMBEDDED: [f64; STAGES] = [
    4_586_570_599.0 / 29_645_900_160.0,
    0.0,
    178_811_875.0 / 945_068_544.0,
    814_220_225.0 / 1_159_782_912.0,
    -3_700_637.0 / 11_593_932.0,
    61_727.0 / 225_920.0,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// `A` with its diagonal.
    fn a(i: usize, j: usize) -> f64 {
        match i == j && i > 0 {
            true => DIAGONAL,
            false if j < i => LOWER[i][j],
            false => 0.0,
        }
    }

    /// The conditions of order 4 of the method, of order 3 of what is embedded in it (Hairer,
    /// Nørsett and Wanner, II.2).
    #[test]
    fn the_orders_are_four_and_three() {
        let c: Vec<f64> = (0..STAGES)
            .map(|i| (0..STAGES).map(|j| a(i, j)).sum())
            .collect();
        let known = [0.0, 0.5, 83.0 / 250.0, 31.0 / 50.0, 17.0 / 20.0, 1.0];
        for (c, known) in c.iter().zip(known) {
            assert!((c - known).abs() < 1e-12, "{c} {known}");
        }
        let b: Vec<f64> = (0..STAGES).map(|j| a(STAGES - 1, j)).collect();
        let times = |v: &[f64]| -> Vec<f64> {
            (0..STAGES)
                .map(|i| (0..STAGES).map(|j| a(i, j) * v[j]).sum())
                .collect()
        };
        let product =
            |v: &[f64], w: &[f64]| -> Vec<f64> { v.iter().zip(w).map(|(v, w)| v * w).collect() };
        let one = vec![1.0; STAGES];
        let (c2, ac) = (product(&c, &c), times(&c));
        let (c3, cac) = (product(&c2, &c), product(&c, &ac));
        let (ac2, aac) = (times(&c2), times(&ac));
        let conditions: [(&[f64], f64, u32); 8] = [
            (&one, 1.0, 1),
            (&c, 1.0 / 2.0, 2),
            (&c2, 1.0 / 3.0, 3),
            (&ac, 1.0 / 6.0, 3),
            (&c3, 1.0 / 4.0, 4),
            (&cac, 1.0 / 8.0, 4),
            (&ac2, 1.0 / 12.0, 4),
            (&aac, 1.0 / 24.0, 4),
        ];
        for (n, (vector, value, order)) in conditions.into_iter().enumerate() {
            let sum = |b: &[f64]| b.iter().zip(vector).map(|(b, v)| b * v).sum::<f64>();
            assert!((sum(&b) - value).abs() < 1e-12, "{n}: {}", sum(&b));
            if order < 4 {
                assert!(
                    (sum(&EMBEDDED) - value).abs() < 1e-12,
                    "{n}: {}",
                    sum(&EMBEDDED)
                );
            }
        }
    }
}
